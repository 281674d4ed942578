// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/growing_images.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// How the images of a run of `steps` steps on `train` grow. `options` say that they do.
data::ImageGrowth image_growth(const data::Dataset& train,
                               const TrainOptions& options,
                               std::int64_t steps);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/train_options.h"

namespace lockstep {

/// "lr 0.2 = 0.1 x 2, linear: global batch 512 / reference batch 256", where rates are scaled;
/// otherwise empty.
std::string format_lr_scaling(const TrainOptions& options);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/train_flags.h"
#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// The options of `flags` as a Trainer takes them, but for crops of images, which open_data()'s
/// source draws.
TrainOptions training_options(const TrainFlags& flags);

/// The training that `flags` ask for on samples of `data`, to be planned for `ranks` ranks. Throws
/// ConfigError: the model is not for such samples. Class weights become numbers in `flags`.
PlanRequest request_for(TrainFlags& flags, data::DataSplit data, int ranks, bool on_host);

}  // namespace lockstep

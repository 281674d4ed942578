// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/train_flags.h"
#include "lockstep/dataset.h"

namespace lockstep {

/// Makes of --teacher DIR, where it is given, the model and the weights that
/// flags.options.distillation names: those of a run that has ended, or of its newest checkpoint.
/// Throws ConfigError: the run's samples are not those of `train`: other classes, sizes or
/// normalisation; what find_weights() throws.
void resolve_teacher(TrainFlags& flags, const data::Dataset& train);

}  // namespace lockstep

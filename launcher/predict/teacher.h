// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/communicator.h"
#include "launcher/settings/train_flags.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// Makes of --teacher DIR, where it is given, the model and the weights that
/// flags.options.distillation names: those of a run that has ended, or of a checkpoint. Rank 0 of
/// `ranks` looks for them, so that all start with it or none; null: there is one rank.
/// Throws ConfigError: the run has not ended, or its samples are not those of `train`: other
/// classes, sizes, normalisation or columns; what find_weights() throws, on every rank alike.
void resolve_teacher(TrainFlags& flags, const data::Dataset& train, Communicator* ranks = nullptr);

}  // namespace lockstep

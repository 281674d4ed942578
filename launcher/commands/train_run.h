// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/output/train_request.h"
#include "lockstep/job.h"

namespace lockstep {

/// Opens the data, trains, writes the run's folder. Collective. Returns the exit code: 1 on rank 0
/// where something could not be written, after everything else was.
/// Throws what the parts throw, on every rank alike wherever the cause is the same on all.
int run_training(Job& job, const TrainRequest& settings);

}  // namespace lockstep

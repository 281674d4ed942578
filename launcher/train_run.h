// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/console.h"
#include "launcher/flags.h"
#include "launcher/job.h"

namespace lockstep {

/// What a training run needs to know beside its flags.
struct RunSettings {
  TrainFlags flags;
  std::vector<std::string> arguments;  ///< as typed, for environment.json
  Console::Kind console = Console::Kind::lines;
  std::string notice;  ///< a line to print before the others; may be empty
};

/// Opens the data, trains, writes the run's folder. Collective. Returns the exit code: 1 on rank 0
/// where something could not be written, after everything else was.
/// Throws what the parts throw, on every rank alike wherever the cause is the same on all.
int run_training(Job& job, const RunSettings& settings);

}  // namespace lockstep

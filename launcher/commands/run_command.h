// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep run`: starts the ranks of a training through mpirun or srun and stands by them:
/// restarts from the newest checkpoint after a failure, hands on the wish to stop. Returns the exit
/// code. Throws ConfigError: flags, no --out; EnvironmentError: no launcher, a launcher around us.
int run_command(const std::vector<std::string>& arguments);

}  // namespace lockstep

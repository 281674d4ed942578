// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct ProgramOutput {
  bool timed_out = false;
  int exit_code = 0;   ///< 128 and more: ended by a signal; 127: it cannot even be killed
  std::string output;  ///< standard output and error, its first 64 KiB
};

/// Runs `command`, whose first word is a path, to its end; after `seconds` it is killed.
/// Throws EnvironmentError: it cannot be started.
ProgramOutput run_program(const std::vector<std::string>& command, double seconds);

}  // namespace lockstep

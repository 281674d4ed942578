// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep plan`: what `lockstep train` with the same flags would use, without running it: the
/// memory table, what fits --memory-limit, FLOPs and bytes on the wire. Returns the exit code.
/// Throws ConfigError: flags; DataError: --data; OutOfMemory: not even a micro-batch of 1 with full
/// recompute fits the limit (after everything else was printed).
int plan_command(const std::vector<std::string>& arguments);

}  // namespace lockstep

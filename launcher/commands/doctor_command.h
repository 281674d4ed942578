// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep doctor`: looks at the machine as a run would find it and prints a line a subject, with
/// a remedy where something is wrong. Under a launcher all ranks look, and rank 0 says who stands
/// out. Returns 0, or 3 where a line failed. Throws ConfigError: flags that are unknown or wrong.
int doctor_command(const std::vector<std::string>& arguments);

}  // namespace lockstep

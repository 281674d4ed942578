// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep bench all-reduce|model|loader`: measures a part of training alone. Throws ConfigError:
/// none of these.
int bench_command(const std::vector<std::string>& arguments);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep pack`: writes an image folder as one file for --data packed:FILE. Returns the exit
/// code. Throws ConfigError: flags that are unknown, missing or wrong; what pack_images() throws.
int pack_command(const std::vector<std::string>& arguments);

}  // namespace lockstep

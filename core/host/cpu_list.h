// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The kernel's lists of CPUs, as in /sys and /proc: "0-3,8" as 0, 1, 2, 3, 8. Skips what is not a
/// number; at most 65,536 of them.
std::vector<int> parse_cpu_list(const std::string& text);

/// "0-3,8", of ascending numbers.
std::string format_cpu_list(const std::vector<int>& numbers);

}  // namespace lockstep

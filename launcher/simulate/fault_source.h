// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/simulation/planted_fault.h"

namespace lockstep {

/// "90s", "10m", "7.9h": seconds, 0 or more. Nothing for other texts.
std::optional<double> parse_seconds(std::string_view text);

/// Faults of a file, one a line, as docs/commands/simulate.md describes them. `name` is the file's.
/// Throws ConfigError naming the line: an unknown kind, a rank or host that is not there, a time
/// before that of the line before or not within the storm's `seconds`, no fault at all.
std::vector<simulation::PlantedFault> parse_faults(
    std::string_view text, const std::string& name, int ranks, int ranks_per_host, double seconds);
/// Throws ConfigError also where there is no such file.
std::vector<simulation::PlantedFault> open_faults(const std::string& file,
                                                  int ranks,
                                                  int ranks_per_host,
                                                  double seconds);

/// Throws ConfigError where more faults are to be expected than a storm can hold: 10^6.
void check_drawn(double mean_s, double seconds);
/// Faults of `seconds` whose gaps are exponential with a mean of `mean_s`. Of 100, 92 are as the
/// 419 interruptions of Llama 3's training, by what was hit ("The Llama 3 Herd of Models", 2024,
/// table 5): 70 ranks die (262 of its GPUs, 54 bugs and 2 dependencies), 10 hosts (46 of its hosts'
/// parts and maintenance), 10 are cut off (42 of its network), and 2 ranks hang (7 timeouts). The
/// other 8, which interrupted no training there, are ours: 2 ranks and 1 host freeze, 2 ranks slow
/// down, the storage stalls in 2 and fails in 1. Who is hit is drawn evenly; how long it lasts is
/// exponential too, but for deaths and hangs.
std::vector<simulation::PlantedFault> draw_faults(
    double mean_s, double seconds, int ranks, int ranks_per_host, std::uint64_t seed);

}  // namespace lockstep

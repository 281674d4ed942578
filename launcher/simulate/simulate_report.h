// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "launcher/simulate/simulated_runs.h"
#include "launcher/simulate/simulated_storms.h"

namespace lockstep {

/// How fast what a rank sends grows: p of bytes ~ N^p between the two largest rank counts. At 1
/// all ranks together send N^2. Fewer than two counts: 0.
double growth_of_rank(std::span<const SimulatedRuns> runs,
                      std::uint64_t RankTraffic::*what,
                      RankTraffic SimulatedRuns::*when);

std::string to_text(const SimulateFlags& flags, std::span<const SimulatedRuns> runs);
std::string to_json(const SimulateFlags& flags,
                    std::span<const SimulatedRuns> runs,
                    std::span<const SimulatedStorm> storms = {});

}  // namespace lockstep

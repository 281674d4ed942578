// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/report/document.h"
#include "launcher/simulate/simulated_runs.h"
#include "launcher/simulate/simulated_storms.h"

namespace lockstep {

/// How fast what a rank sends grows: p of bytes ~ N^p between the two largest rank counts. At 1
/// all ranks together send N^2. Fewer than two counts: 0.
double growth_of_rank(std::span<const SimulatedRuns> runs,
                      std::uint64_t RankTraffic::*what,
                      RankTraffic SimulatedRuns::*when);

/// What was simulated; a line each.
std::vector<std::string> simulated_subject(const SimulateFlags& flags,
                                           std::span<const SimulatedRuns> runs);
/// A row for each rank count.
report::Table simulated_table(std::span<const SimulatedRuns> runs);
/// Growth, and of each rank count what was checked, what failed and what is predicted; a line each.
std::vector<std::string> simulated_notes(std::span<const SimulatedRuns> runs);

std::string to_text(const SimulateFlags& flags, std::span<const SimulatedRuns> runs);
std::string to_json(const SimulateFlags& flags,
                    std::span<const SimulatedRuns> runs,
                    std::span<const SimulatedStorm> storms = {});

/// A page as of `lockstep report`: what to_text() says, the timeline of the last step on the
/// largest rank count, and the faults of each storm.
std::string simulate_page(const SimulateFlags& flags,
                          std::span<const SimulatedRuns> runs,
                          std::span<const SimulatedStorm> storms);

}  // namespace lockstep

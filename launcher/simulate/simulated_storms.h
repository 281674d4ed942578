// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "launcher/report/document.h"
#include "launcher/simulate/fault_storm.h"
#include "launcher/simulate/simulated_runs.h"

namespace lockstep {

struct SimulatedStorm {
  StormRequest request;
  StormResult result;
  double wall_s = 0;             ///< of this process
  std::uint64_t peak_bytes = 0;  ///< of this process, the exact simulation included
};

/// The storms of `flags`, with the times of `exact`. Nothing without --faults, or where `exact` has
/// failed.
std::vector<SimulatedStorm> simulate_storms(const SimulateFlags& flags, const SimulatedRuns& exact);

/// Whether every fault was named after who was hit.
bool held(std::span<const SimulatedStorm> storms);

/// What was simulated, in a line.
std::string storm_subject(const SimulateFlags& flags, const SimulatedStorm& storm);
/// A row for each of the first `max_rows` faults.
report::Table fault_table(const SimulatedStorm& storm, std::size_t max_rows);
/// Goodput, checkpoints, detection and what it took here; a line each.
std::vector<std::string> storm_summary(const SimulatedStorm& storm);
/// In a line, of one storm at least.
std::string goodput_of_all(std::span<const SimulatedStorm> storms);

std::string to_text(const SimulateFlags& flags, std::span<const SimulatedStorm> storms);
/// An array with an object a storm.
nlohmann::json to_object(std::span<const SimulatedStorm> storms);

}  // namespace lockstep

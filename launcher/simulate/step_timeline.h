// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/report/timeline.h"
#include "parallel/simulation/simulation.h"

namespace lockstep {

/// The last step of `result`, from its begin on: three streams of each rank whose spans were kept,
/// and the links of the first 64 hosts.
report::Timeline last_step_of(const simulation::SimulationResult& result);

/// Writes `timeline` in the Trace Event Format of Chrome, which Perfetto reads: a process a group
/// with a track a lane. Throws EnvironmentError.
void write_timeline(const std::string& file, const report::Timeline& timeline);

}  // namespace lockstep

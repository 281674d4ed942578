// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/report/timeline.h"
#include "parallel/simulation/simulation.h"

namespace lockstep {

/// The last step of `result` from its begin to its end: three streams of each rank whose spans were
/// kept, and the links of the first 64 hosts. Without lanes where no step has ended.
report::Timeline last_step_of(const simulation::SimulationResult& result);

/// What a file begins with that timeline_json() was written into.
inline constexpr std::string_view kTimelineMark = "{\"traceEvents\":";
/// `timeline` in the Trace Event Format of Chrome, which Perfetto reads: a process a group with a
/// track a lane.
std::string timeline_json(const report::Timeline& timeline);

}  // namespace lockstep

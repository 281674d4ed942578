// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/io/run_log.h"
#include "lockstep/device_use.h"
#include "lockstep/time_breakdown.h"

namespace lockstep {

/// "data_ms", "copy_ms", ... of a mean step, in order, without its total.
void add_parts(std::vector<JsonField>& fields, const TimeBreakdown& step_ms);

/// {"forward_ms": 1, ..., "idle_ms": 0}
std::string device_ms_json(const DeviceTimes& ms);
/// {"steps": 10, "forward": 1, ..., "idle": 0}: seconds in all. Empty where no step was measured.
std::string device_seconds_json(const DeviceTimes& seconds, std::int64_t steps);

/// An array of objects, one a rank: "rank", "host", "seconds" in all, and the seconds of each part.
std::string time_breakdowns_json(const std::vector<RankTimeBreakdown>& breakdowns);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/device_use.h"
#include "lockstep/gpu_use.h"

namespace lockstep {

/// How the GPUs of all ranks (in rank order) were used, for the table at the end of a run: a line
/// each for time, space, traffic, and power with clocks, and what could not be watched. Means over
/// ranks; where ranks differ their range and the one that is farthest from the others. Lines of
/// values that are unknown are omitted; no ranks, no lines.
std::vector<std::string> format_gpu_usage(std::span<const GpuUse> ranks);

/// "gpu phases             forward 31%, backward 55%, ...": of the time of `steps` logged steps.
std::string format_gpu_phases(const DeviceTimes& times, std::int64_t steps);

/// {"graphs": 4, "replays": 1000, "why_not": ""}, or null.
std::string graph_use_json(const std::optional<GraphUse>& use);
/// "4 captured, replayed 1,000 times"; empty where the device takes none.
std::string format_graph_use(const std::optional<GraphUse>& use);
/// The use in numbers, for summary.json: an array with an object a rank. null: not said. Empty
/// where there are no ranks.
std::string gpus_json(std::span<const GpuUse> ranks);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/exec/profiler.h"
#include "parallel/rank_context.h"
#include "parallel/train_records.h"

namespace lockstep {

/// Starts the profiler, and has it trace the device where that can be. Where a device cannot be
/// traced, tells the observers why, and goes on without.
void start_profile(RankContext& context,
                   Profiler& profiler,
                   std::span<TrainObserver* const> observers);

/// Stops the profiler, sums up what it saw in `steps` steps, measures the device's peaks, and
/// gathers every rank's events into one trace. Collective; complete on rank 0.
ProfileRecord make_profile(RankContext& context, Profiler& profiler, std::int64_t steps);

}  // namespace lockstep

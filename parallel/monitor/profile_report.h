// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/profile/profiler.h"
#include "lockstep/rank_context.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// Starts the profiler, and has it trace the device where every rank's can be. Where one cannot,
/// tells the observers which and why, and all continue without. Collective.
void start_profile(RankContext& context,
                   Profiler& profiler,
                   std::int64_t first_step,
                   std::span<TrainObserver* const> observers);
/// Training is over; waits for the device.
void stop_profile(RankContext& context, Profiler& profiler);

/// Sums up what the stopped profiler saw in `steps` steps, measures the device's peaks, and
/// gathers every rank's events into one trace. Collective; complete on rank 0.
ProfileRecord make_profile(RankContext& context, Profiler& profiler, std::int64_t steps);

}  // namespace lockstep

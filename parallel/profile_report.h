// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/profiler.h"
#include "parallel/rank_context.h"
#include "parallel/train_records.h"

namespace lockstep {

/// Sums up what this rank's profiler saw in `steps` steps, measures the device's peaks, and gathers
/// every rank's events into one trace. Collective; complete on rank 0.
ProfileRecord make_profile(RankContext& context, const Profiler& profiler, std::int64_t steps);

}  // namespace lockstep

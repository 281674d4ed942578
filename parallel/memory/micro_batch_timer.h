// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/rank_context.h"
#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// Seconds on the rank that is slowest at it, with all ranks at work as in training.
struct MicroBatchTime {
  double compute = 0;  ///< taking samples over, forward and backward of one whole micro-batch
  double sum = 0;      ///< adding a shard's gradients to those of the shards before it
};

/// Medians of some runs, without the first. Reserves what the program wants and gives it back. Its
/// samples are zeros that cost nothing to load: what kernels take does not depend on them. Nothing:
/// some rank lacks the memory. Collective; equal on every rank. Throws what else ProgramSet throws.
/// `batch` is plan_batch() of the request.
std::optional<MicroBatchTime> time_micro_batch(RankContext& context,
                                               const PlanRequest& request,
                                               const BatchPlan& batch);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "parallel/memory_plan.h"
#include "parallel/rank_context.h"

namespace lockstep {

/// Seconds of forward and backward of one whole micro-batch on the rank that is slowest at it, with
/// all ranks at work as in training; the median of some runs, without the first. Reserves what the
/// program wants and gives it back. Its samples are zeros: what kernels take does not depend on
/// them. Nothing: some rank lacks the memory. Collective; equal on every rank. Throws what else
/// ProgramSet throws.
std::optional<double> time_micro_batch(RankContext& context, const PlanRequest& request);

}  // namespace lockstep

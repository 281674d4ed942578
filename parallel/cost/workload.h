// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/cost/cost_model.h"
#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// Speeds in the ratio of today's devices, where only shares of a step's time count: 10 FLOP a
/// byte.
inline constexpr DevicePeaks kUnknownPeaks{.fp32_flops = 1e12, .bf16_flops = 2e12, .bytes = 1e11};

/// What the cost model asks of a training, and what roofline times say of its compute.
struct PlannedWork {
  Workload work;
  double per_sample_s = 0;  ///< the least that the peaks allow, forward and backward of a sample
  double fixed_s = 0;       ///< the optimizer's: parameters, gradients and state through memory
};

/// Compiles the program of a whole micro-batch, and reserves nothing. Costs of operators at
/// `peaks` (min_seconds()) say which share of backward is done when a bucket is complete. Throws
/// what plan_memory() throws.
PlannedWork plan_work(Backend& device, const PlanRequest& request, const DevicePeaks& peaks);

}  // namespace lockstep

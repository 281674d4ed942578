// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"
#include "kernels/cuda/launch.cuh"

/// How updates read the step's outcome in device memory: every thread reads the same few bytes,
/// which the caches broadcast.
namespace lockstep::cuda {

/// Whether the update is skipped.
__device__ inline bool forbids_updates(const StepOutcome* outcome) {
  return outcome != nullptr && outcome->bad != 0;
}

__device__ inline float grad_scale_of(const StepOutcome* outcome, float without) {
  return outcome != nullptr ? outcome->grad_scale : without;
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/libraries/cudnn_descriptor.h"

namespace lockstep::cuda {

/// What cuDNN executes: kernels with all their choices made.
struct CudnnPlan {
  CudnnDescriptor plan;
  std::size_t workspace_bytes = 0;
};

/// The first plan in cuDNN's order of expected speed that gives the same bits in every run, sums in
/// fp32 and transforms nothing (no Winograd, no FFT); null where there is none. `rounded_factors`:
/// whether fp32 factors may be rounded for tensor cores (tf32).
std::unique_ptr<CudnnPlan> choose_plan(cudnnHandle_t handle,
                                       const std::vector<CudnnDescriptor>& operations,
                                       bool rounded_factors,
                                       const std::string& what);

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/exec/conclude.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/ordered_sum.cuh"

// The end of a step: one block adds the tensors' squared norms in order, and its first thread
// writes the outcome. A few hundred bytes; bound by the latency of one fp64 addition a tensor.
namespace lockstep::cuda {
namespace {

__global__ void conclude_step_kernel(StepSums sums,
                                     const double* norms,
                                     std::int64_t count,
                                     StepOutcome* outcome) {
  const double squares = ordered_sum(norms, 0, count, dynamic_shared<double>());
  if (threadIdx.x == 0) *outcome = outcome_of(sums, sqrt(squares));
}

}  // namespace

void conclude_step(const Device& device,
                   const StepSums& sums,
                   const double* norms,
                   StepOutcome* outcome) {
  launch("conclude_step",
         {.shared_bytes = kOrderedSumBytes},
         device.compute,
         conclude_step_kernel,
         sums,
         norms,
         std::int64_t(sums.tensors.size()),
         outcome);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

/// Bytes of shared memory that ordered_sum() needs.
inline constexpr std::size_t kOrderedSumBytes = kBlock * sizeof(double);

/// values[begin] + values[begin + 1] + ... + values[end - 1], one after another, in thread 0; the
/// other threads of a block of kBlock feed it through `staged`, in shared memory. Bound by the
/// latency of an addition.
__device__ inline double ordered_sum(const double* values,
                                     std::int64_t begin,
                                     std::int64_t end,
                                     double* staged) {
  double sum = 0;
  for (std::int64_t batch = begin; batch < end; batch += blockDim.x) {
    const std::int64_t left = end - batch;
    const int count = int(left < blockDim.x ? left : blockDim.x);
    if (int(threadIdx.x) < count) staged[threadIdx.x] = values[batch + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (int i = 0; i < count; ++i) sum += staged[i];
    }
    __syncthreads();
  }
  return sum;
}

}  // namespace lockstep::cuda

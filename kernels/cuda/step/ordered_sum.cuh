// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

/// Bytes of shared memory that ordered_sum() needs.
inline constexpr std::size_t kOrderedSumBytes = 2 * kBlock * sizeof(double);

/// values[begin] + values[begin + 1] + ... + values[end - 1], one after another, in thread 0; all
/// threads of a block of kBlock feed it through `staged`, in shared memory, of which they fill one
/// half while it adds the other, and read a batch ahead. Bound by the latency of an addition.
__device__ inline double ordered_sum(const double* values,
                                     std::int64_t begin,
                                     std::int64_t end,
                                     double* staged) {
  const int own = int(threadIdx.x), threads = int(blockDim.x);
  const auto read = [&](std::int64_t batch) {
    return batch + own < end ? values[batch + own] : 0.0;
  };
  double sum = 0, ahead = read(begin);
  int half = 0;
  for (std::int64_t batch = begin; batch < end; batch += threads, half = threads - half) {
    staged[half + own] = ahead;
    __syncthreads();
    ahead = read(batch + threads);
    if (own > 0) continue;
    const std::int64_t left = end - batch;
    const int count = int(left < threads ? left : threads);
#pragma unroll 16
    for (int i = 0; i < count; ++i) sum += staged[half + i];
  }
  return sum;
}

}  // namespace lockstep::cuda

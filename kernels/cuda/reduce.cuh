// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/launch.cuh"

/// Reductions whose order is fixed by thread numbers alone, so that two runs give the same bits.
/// All threads of the warp or block take part and get the result; blocks have one extent, a
/// multiple of 32 threads. `Combine` is associative up to rounding and commutative in its bits.
namespace lockstep::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN wins.
struct Max {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

template <typename T, typename Combine>
__device__ inline T warp_reduce(T value, Combine combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

/// `shared`: one T for each warp of the block, free for other use after the next barrier.
template <typename T, typename Combine>
__device__ inline T block_reduce(T value, Combine combine, T* shared) {
  value = warp_reduce(value, combine);
  const int warps = int(blockDim.x) / kWarp;
  __syncthreads();  // an earlier reduction may still be reading
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = shared[0];
  for (int warp = 1; warp < warps; ++warp) result = combine(result, shared[warp]);
  return result;
}

template <typename T>
__device__ inline T block_sum(T value, T* shared) {
  return block_reduce(value, Sum{}, shared);
}

}  // namespace lockstep::cuda

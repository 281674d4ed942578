// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector_access.cuh"

/// Sums of squares in the CPU's order, and so with its bits. Four threads take a block of
/// kNormBlock elements; of its sixteen running sums, of every sixteenth element, each keeps four
/// that are neighbours, so that it reads 16 bytes at a time where addresses allow; then all are
/// added pairwise.
namespace lockstep::cuda {

inline constexpr int kNormLanes = 16;                         // running sums of a block
inline constexpr int kOwnNormLanes = Pack<float>::kElems;     // of those, what one thread keeps
inline constexpr int kNormTeam = kNormLanes / kOwnNormLanes;  // threads of a block of kNormBlock

/// The sum of the squares of block `block` of `elems` elements, 0 where there is none, by a team of
/// kNormTeam neighbouring threads. All threads of a warp take part. `packed`: `values` is aligned
/// to 16 bytes.
__device__ inline double squared_norm_of_block(const float* values,
                                               std::int64_t elems,
                                               std::int64_t block,
                                               bool packed) {
  const int member = int(threadIdx.x) % kNormTeam;
  const std::int64_t begin = block * kNormBlock;
  const std::int64_t end = begin + kNormBlock < elems ? begin + kNormBlock : elems;
  double sums[kOwnNormLanes] = {};
  const auto add_square = [&](int lane, float value) {
    sums[lane] += double(value) * double(value);
  };
  std::int64_t i = begin + member * kOwnNormLanes;
  if (packed) {
#pragma unroll 8
    for (; i + kOwnNormLanes <= end; i += kNormLanes) {
      const Pack<float> pack = load_pack(values + i);
      for (int lane = 0; lane < kOwnNormLanes; ++lane) add_square(lane, pack.values[lane]);
    }
  }
  for (; i < end; i += kNormLanes)
    for (int lane = 0; lane < kOwnNormLanes && i + lane < end; ++lane)
      add_square(lane, values[i + lane]);
  // As if every sum were a thread's: lanes eight apart, then four, two and one.
  for (int distance = kNormTeam / 2; distance > 0; distance /= 2)
    for (int lane = 0; lane < kOwnNormLanes; ++lane)
      sums[lane] += __shfl_xor_sync(kAllLanes, sums[lane], distance);
  for (int half = kOwnNormLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/check.h"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/squared_norms.cuh"

/// Kernels of units (UnitRange): a block of kUnitThreads takes one unit, a tile of its table.
namespace lockstep::cuda {

/// A UnitRange in so few bytes that a table has room for many.
struct Units {
  std::int64_t offset;
  std::int32_t unit, first, elems, norm, own, own_elems;
};

inline Units units_of(const UnitRange& r) {
  for (const std::int64_t count : {r.unit, r.first + r.elems, r.own + r.own_elems})
    LOCKSTEP_ASSERT(count <= INT32_MAX);
  return {r.offset,
          std::int32_t(r.unit),
          std::int32_t(r.first),
          std::int32_t(r.elems),
          r.norm,
          std::int32_t(r.own),
          std::int32_t(r.norm < 0 ? r.unit : r.own_elems)};
}

inline constexpr int kUnitThreads = 64;
inline constexpr int kUnitTeams = kUnitThreads / kNormTeam;

/// Of one unit in each of several arrays.
template <int kArrays>
struct UnitSquares {
  double of[kArrays] = {};
};
template <int kArrays>
struct UnitArrays {
  const float* of[kArrays];  ///< where the tensor begins
};

/// Squared norms of the elements [begin, end) of a tensor, in thread 0, as UnitRange has them.
/// Teams of threads square pieces, the first thread adds them in order. All threads of the block
/// take part. `partials`: [kUnitTeams], shared.
template <int kArrays>
__device__ inline UnitSquares<kArrays> squares_of_unit(const UnitArrays<kArrays>& arrays,
                                                       std::int64_t begin,
                                                       std::int64_t end,
                                                       bool packed,
                                                       double* partials) {
  constexpr int kPieces = kUnitTeams / kArrays;  // at once, of each array
  const int team = int(threadIdx.x) / kNormTeam;
  const std::int64_t first = begin / kNormBlock, pieces = (end - 1) / kNormBlock + 1 - first;
  const float* const values = arrays.of[team % kArrays];
  UnitSquares<kArrays> squares;
  for (std::int64_t done = 0; done < pieces; done += kPieces) {
    const std::int64_t piece = first + done + team / kArrays;
    const std::int64_t low = piece * kNormBlock > begin ? piece * kNormBlock : begin;
    const std::int64_t high = (piece + 1) * kNormBlock < end ? (piece + 1) * kNormBlock : end;
    const double sum =
        squared_norm_of_block(values + low, high - low, 0, packed && low % kOwnNormLanes == 0);
    if (threadIdx.x % kNormTeam == 0) partials[team] = sum;
    __syncthreads();
    for (int p = 0; threadIdx.x == 0 && p < kPieces && done + p < pieces; ++p)
      for (int a = 0; a < kArrays; ++a) squares.of[a] += partials[kArrays * p + a];
    __syncthreads();
  }
  return squares;
}

}  // namespace lockstep::cuda

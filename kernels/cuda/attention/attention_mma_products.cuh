// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/attention_mma_parts.cuh"

/// What a warp does with its own tokens and 16 walked ones: Note [Attention on tensor cores].
namespace lockstep::cuda {

/// A number for each pair of a warp's tokens and 16 walked ones, as d.
template <int blocks>
using Pairs = float[blocks][2][4];
/// Those as a of the second product.
template <int blocks>
using PairFragments = std::uint32_t[blocks][4];

/// pairs += own walked^T; `walked`: the first of 16 rows of a stage.
template <int steps>
__device__ inline void multiply_walked(Pairs<MmaSizes<steps>::kBlocks>& pairs,
                                       const OwnRows<steps>& own,
                                       const Bf16* walked) {
  using Sizes = MmaSizes<steps>;
  const MmaLane at;
  const Bf16* const row =
      walked + (8 * (at.matrix / 2) + at.matrix_row) * Sizes::kStride + 8 * (at.matrix % 2);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    std::uint32_t m[4];
    load_matrices<false>(m, row + 16 * step);
#pragma unroll
    for (int b = 0; b < Sizes::kBlocks; ++b) {
      multiply_fragments(pairs[b][0], own[b][step], m[0], m[1]);
      multiply_fragments(pairs[b][1], own[b][step], m[2], m[3]);
    }
  }
}

/// sums += factors walked
template <int steps>
__device__ inline void add_walked(OwnSums<steps>& sums,
                                  const PairFragments<MmaSizes<steps>::kBlocks>& factors,
                                  const Bf16* walked) {
  using Sizes = MmaSizes<steps>;
  const MmaLane at;
  const Bf16* const row =
      walked + (8 * (at.matrix % 2) + at.matrix_row) * Sizes::kStride + 8 * (at.matrix / 2);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    std::uint32_t m[4];
    load_matrices<true>(m, row + 16 * step);
#pragma unroll
    for (int b = 0; b < Sizes::kBlocks; ++b) {
      multiply_fragments(sums[b][2 * step], factors[b], m[0], m[1]);
      multiply_fragments(sums[b][2 * step + 1], factors[b], m[2], m[3]);
    }
  }
}

template <int blocks>
__device__ inline void round_pairs(PairFragments<blocks>& fragments, const Pairs<blocks>& pairs) {
#pragma unroll
  for (int b = 0; b < blocks; ++b)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const p = pairs[b][i / 2] + 2 * (i % 2);
      fragments[b][i] = bf16_pair(p[0], p[1]);
    }
}

/// out[row][column] = factors[row] * sums[row][column] for rows and columns that exist;
/// factors[b][half] are of this lane's rows.
template <int steps>
__device__ inline void store_own(Bf16* out,
                                 std::int64_t row_stride,
                                 std::int64_t rows,
                                 std::int64_t columns,
                                 const OwnSums<steps>& sums,
                                 const float (&factors)[MmaSizes<steps>::kBlocks][2]) {
  const MmaLane at;
#pragma unroll
  for (int b = 0; b < MmaSizes<steps>::kBlocks; ++b)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * b + at.g + 8 * half;
      if (row >= rows) continue;
#pragma unroll
      for (int n = 0; n < 2 * steps; ++n)
        if (8 * n + 2 * at.t < columns)
          *reinterpret_cast<std::uint32_t*>(out + row * row_stride + 8 * n + 2 * at.t) = bf16_pair(
              factors[b][half] * sums[b][n][2 * half], factors[b][half] * sums[b][n][2 * half + 1]);
    }
}

}  // namespace lockstep::cuda

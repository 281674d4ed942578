// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/mma.cuh"

// Attention of bf16 on tensor cores, for heads of up to kMmaDepth columns in whole packs. NEVER RUN
// ON A GPU: emulated only, where the instructions of mma.cuh are their plain twins.
//
// A block of four warps owns a tile of kTile queries of one head and walks over the tiles of keys
// that they see; a warp owns 16 of the queries, whose scores, weights and sums stay in its
// registers (Note [Fragments]), with an online softmax as in attention.cu. Keys and values lie in
// shared memory. Scores are exact sums of bf16 products; weights enter their product as two bf16,
// the rounded value and the rest, so that y is as exact as the plain kernel's. Bytes as there.
// Bound by the tensor cores: three halves of the 4 T T D operations.
namespace lockstep::cuda {

inline constexpr int kMmaDepth = 128;
inline constexpr int kMmaWarps = 4, kMmaRows = kTile / kMmaWarps;
inline constexpr int kMmaThreads = kMmaWarps * kWarp;
inline constexpr int kKeyPairs = kTile / 16;  // of 8 x 8 matrices

inline bool fits_mma(const AttentionShape& s) { return s.packs && s.depth <= kMmaDepth; }

struct AttentionMmaArgs {
  const Bf16* qkv = nullptr;
  Bf16* y = nullptr;
  float* lse = nullptr;
};

/// A lane's elements of 16 rows by kTile columns, as d of Note [Fragments].
using ScoreRows = float[2 * kKeyPairs][4];

/// Rows of shared memory, moved by 16 bytes against each other, so that the rows of an 8 x 8 matrix
/// meet different banks.
template <int steps>
constexpr int kMmaStride = 16 * steps + 8;

/// to[row][column] = from[row][column] for kTile rows of 16 steps columns, zero outside.
template <int steps>
__device__ inline void load_bf16_rows(Bf16* to, const TileSource<Bf16>& from) {
  constexpr int kPack = Pack<Bf16>::kElems, kPacks = 16 * steps / kPack;
#pragma unroll 2
  for (int p = int(threadIdx.x); p < kTile * kPacks; p += kMmaThreads) {
    const int row = p / kPacks, c = p % kPacks * kPack;
    Pack<Bf16> pack;
    for (Bf16& value : pack.values) value = from_float<Bf16>(0.0f);
    if (row < from.rows && c < from.columns)
      pack = load_pack(from.first + row * from.row_stride + c);
    store_pack(to + row * kMmaStride<steps> + c, pack);
  }
}

/// This lane's part of the 16 queries of its warp, as a of Note [Fragments].
template <int steps>
__device__ inline void load_queries(std::uint32_t (&queries)[steps][4],
                                    const Bf16* first,
                                    std::int64_t row_stride,
                                    std::int64_t rows,
                                    std::int64_t depth) {
  const int lane = int(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i % 2), column = 16 * step + 2 * t + 8 * (i / 2);
      queries[step][i] = 0;
      if (row < rows && column < depth)
        queries[step][i] =
            *reinterpret_cast<const std::uint32_t*>(first + row * row_stride + column);
    }
}

/// Scores to weights e^(s - top) of row `query` (half 0: row g, 1: g + 8), as softmax_tile.
struct MmaRow {
  float top = -INFINITY, total = 0;

  /// Returns what earlier sums are to be scaled by.
  __device__ float weigh(
      ScoreRows& scores, int half, const AttentionShape& s, std::int64_t query, std::int64_t key) {
    float largest = top, sum = 0;
#pragma unroll
    for (int n = 0; n < 2 * kKeyPairs; ++n)
      for (int c = 0; c < 2; ++c) {
        float& score = scores[n][2 * half + c];
        score *= s.scale;
        if (sees(s, query, key + 8 * n + c)) largest = fmaxf(largest, score);
      }
    for (int distance = 1; distance <= 2; distance *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
#pragma unroll
    for (int n = 0; n < 2 * kKeyPairs; ++n)
      for (int c = 0; c < 2; ++c) {
        float& score = scores[n][2 * half + c];
        score = sees(s, query, key + 8 * n + c) ? expf(score - largest) : 0.0f;
        sum += score;
      }
    for (int distance = 1; distance <= 2; distance *= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    const float factor = query < s.tokens ? expf(top - largest) : 0.0f;
    total = total * factor + sum;
    top = largest;
    return factor;
  }
};

/// Weights of 16 keys (pair `pair`) as a of Note [Fragments], rounded, and what rounding took.
__device__ inline void weight_fragments(std::uint32_t (&rounded)[4],
                                        std::uint32_t (&rest)[4],
                                        const ScoreRows& weights,
                                        int pair) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* const w = weights[2 * pair + i / 2] + 2 * (i % 2);
    const float low = to_float(from_float<Bf16>(w[0])), high = to_float(from_float<Bf16>(w[1]));
    rounded[i] = bf16_pair(low, high);
    rest[i] = bf16_pair(w[0] - low, w[1] - high);
  }
}

/// `steps` sixteens of columns.
template <int steps>
__global__ void __launch_bounds__(kMmaThreads)
    attention_mma_kernel(AttentionMmaArgs a, AttentionShape s, WeightDropout dropout) {
  constexpr int kStride = kMmaStride<steps>;
  Bf16* const keys = dynamic_shared<Bf16>();    // [key][column]
  Bf16* const values = keys + kTile * kStride;  // the same
  const HeadBlock block(s, s.causal);
  const int lane = int(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  const int matrix = lane / 8, matrix_row = lane % 8;
  const std::int64_t row_stride = 3 * s.heads * s.depth;
  const std::int64_t first = block.first_token + std::int64_t(threadIdx.x) / kWarp * kMmaRows;
  const auto source = [&](int part, std::int64_t token) {
    return TileSource<Bf16>{
        a.qkv + block.packed(s, part, token), row_stride, s.tokens - token, s.depth, true};
  };
  std::uint32_t queries[steps][4];
  load_queries(queries, a.qkv + block.packed(s, 0, first), row_stride, s.tokens - first, s.depth);
  float sums[2 * steps][4] = {};
  MmaRow rows[2];
  const std::int64_t seen = block.first_token + kTile;
  const std::int64_t key_end = s.causal && seen < s.tokens ? seen : s.tokens;
  for (std::int64_t key = 0; key < key_end; key += kTile) {
    __syncthreads();
    load_bf16_rows<steps>(keys, source(1, key));
    load_bf16_rows<steps>(values, source(2, key));
    __syncthreads();
    ScoreRows scores = {};
#pragma unroll
    for (int step = 0; step < steps; ++step)
#pragma unroll
      for (int pair = 0; pair < kKeyPairs; ++pair) {
        std::uint32_t m[4];
        load_matrices<false>(m,
                             keys + (16 * pair + 8 * (matrix / 2) + matrix_row) * kStride +
                                 16 * step + 8 * (matrix % 2));
        multiply_fragments(scores[2 * pair], queries[step], m[0], m[1]);
        multiply_fragments(scores[2 * pair + 1], queries[step], m[2], m[3]);
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t query = first + g + 8 * half;
      const float factor = rows[half].weigh(scores, half, s, query, key + 2 * t);
#pragma unroll
      for (int n = 0; n < 2 * steps; ++n)
        for (int c = 0; c < 2; ++c) sums[n][2 * half + c] *= factor;
      if (!dropout.drops) continue;
#pragma unroll
      for (int n = 0; n < 2 * kKeyPairs; ++n) {
        bool kept[2];
        kept_weights(kept, dropout, s, block, query, key + 8 * n + 2 * t);
        for (int c = 0; c < 2; ++c)
          scores[n][2 * half + c] = kept[c] ? scores[n][2 * half + c] : 0.0f;
      }
    }
#pragma unroll
    for (int pair = 0; pair < kKeyPairs; ++pair) {
      std::uint32_t rounded[4], rest[4];
      weight_fragments(rounded, rest, scores, pair);
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        std::uint32_t m[4];
        load_matrices<true>(m,
                            values + (16 * pair + 8 * (matrix % 2) + matrix_row) * kStride +
                                16 * step + 8 * (matrix / 2));
        for (int n = 0; n < 2; ++n) {
          multiply_fragments(sums[2 * step + n], rounded, m[2 * n], m[2 * n + 1]);
          multiply_fragments(sums[2 * step + n], rest, m[2 * n], m[2 * n + 1]);
        }
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query = first + g + 8 * half;
    if (query >= s.tokens) continue;
    const float inverse = dropout.scale / rows[half].total;
    Bf16* const y = a.y + block.plain(s, query);
#pragma unroll
    for (int n = 0; n < 2 * steps; ++n)
      if (8 * n + 2 * t < s.depth)
        *reinterpret_cast<std::uint32_t*>(y + 8 * n + 2 * t) =
            bf16_pair(sums[n][2 * half] * inverse, sums[n][2 * half + 1] * inverse);
    if (t == 0) a.lse[block.statistic(s, query)] = rows[half].top + logf(rows[half].total);
  }
}

/// Shapes for which fits_mma().
inline void start_attention_mma(const AttentionMmaArgs& args,
                                const AttentionShape& shape,
                                const WeightDropout& dropout,
                                cudaStream_t stream) {
  const auto start = [&](auto steps) {
    LaunchShape launch_shape = shape.launch_shape();
    launch_shape.block = dim3(kMmaThreads);
    launch_shape.shared_bytes = 2 * kTile * kMmaStride<steps> * sizeof(Bf16);
    launch("attention on tensor cores",
           launch_shape,
           stream,
           attention_mma_kernel<steps>,
           args,
           shape,
           dropout);
  };
  if (shape.depth <= 32)
    start(std::integral_constant<int, 2>{});
  else if (shape.depth <= 64)
    start(std::integral_constant<int, 4>{});
  else if (shape.depth <= 80)
    start(std::integral_constant<int, 5>{});
  else
    start(std::integral_constant<int, kMmaDepth / 16>{});
}

}  // namespace lockstep::cuda

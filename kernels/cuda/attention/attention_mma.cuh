// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/attention_mma_dropout.cuh"
#include "kernels/cuda/attention/attention_mma_products.cuh"

// Attention of bf16 on tensor cores, for shapes for which fits_mma().
//
// Blocks own queries and walk over the keys that they see (Note [Attention on tensor cores]), with
// an online softmax as in attention.cu. Scores are sums of products of bf16, exact in fp32; weights
// enter their product rounded to bf16 (as Dao 2023), which moves y by 2^-8 of sum_j p_j |v_j| at
// most: as much as storing y does where the v_j agree, and more only where they cancel, as they do
// in every bf16 GEMM of this network. The rest of each weight as a second bf16 would cost half
// of the tensor cores' time. e^x by ex2.approx: its 2^-22, and 2^-24 |x| of its argument, are far
// below bf16's 2^-8; totals, and lse, are of the weights before they are rounded.
//
// At N = 64, heads = 12, T = 1,024, D = 64, causal, on an H100 (see attention_bwd_mma.cuh):
//   FLOPs: 4 T T D / 2 a head: 103 G, and 5% in pairs on the diagonal that masks hide: 0.18 ms.
//   Bytes: qkv read, y written: 0.4 GB, 0.12 ms. Stages come from the L2 cache: 0.9 GB.
//   Shared memory: 5/8 of the tensor cores' time (D <= 64; above, 5/4 of it).
//   Exponentials: T T / 2 a head, 16 a clock and SM: 0.11 ms concurrently with the others.
// Bound by the tensor cores. Predicted: 0.4 ms. Measured on an H200: 0.61 ms.
namespace lockstep::cuda {

struct AttentionMmaArgs {
  const Bf16* qkv = nullptr;
  Bf16* y = nullptr;
  float* lse = nullptr;
};

/// Scores of a warp's queries and the keys of a stage.
template <int steps>
using StageScores = Pairs<MmaSizes<steps>::kBlocks>[MmaSizes<steps>::kWalked / 16];

/// One of a lane's rows of queries: half 0 is row g, 1 is g + 8.
struct MmaRow {
  float top = -INFINITY;  ///< largest score so far; a NaN comes back when it is exponentiated
  float total = 0;        ///< sum of e^(score - top)

  /// Turns scores of sixteen b into weights; `exponent` times a score is its power of two. Returns
  /// what earlier sums are to be scaled by.
  template <int sixteens, int blocks>
  __device__ float weigh(Pairs<blocks> (&scores)[sixteens], int b, int half, float exponent) {
    float largest = top, sum = 0;
#pragma unroll
    for (int i = 0; i < sixteens; ++i)
      for (int n = 0; n < 2; ++n)
        for (int c = 0; c < 2; ++c) largest = fmaxf(largest, scores[i][b][n][2 * half + c]);
    for (int distance = 1; distance <= 2; distance *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    const float shift = largest * exponent;
#pragma unroll
    for (int i = 0; i < sixteens; ++i)
      for (int n = 0; n < 2; ++n)
        for (int c = 0; c < 2; ++c) {
          float& score = scores[i][b][n][2 * half + c];
          score = exp2_approx(fmaf(score, exponent, -shift));
          sum += score;
        }
    for (int distance = 1; distance <= 2; distance *= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    const float factor = exp2_approx(fmaf(top, exponent, -shift));
    total = total * factor + sum;
    top = largest;
    return factor;
  }
};

/// A block's head, and this warp's queries of it.
template <typename Dropout>
struct FwdWarp {
  const AttentionShape& s;
  const HeadBlock& block;
  int tokens, first, end;  // queries first to end - 1, which need not exist
  WarpDropout<Dropout> drawn;

  /// Whether a query sees one of the 16 keys from `key` on.
  __device__ bool counts(int key) const {
    return first < tokens && key < tokens && (!s.causal || key < end);
  }
  /// Hides from queries what they do not see; those that do not exist see something.
  template <int blocks>
  __device__ void mask(Pairs<blocks>& scores, int key) const {
    if (key + 16 <= tokens && (!s.causal || key + 15 <= first)) return;
    const MmaLane at;
#pragma unroll
    for (int b = 0; b < blocks; ++b)
      for (int n = 0; n < 2; ++n)
        for (int e = 0; e < 4; ++e) {
          const int mine = first + 16 * b + at.own(e), other = key + at.walked(n, e);
          if (other >= tokens || (s.causal && other > mine)) scores[b][n][e] = -INFINITY;
        }
  }
  /// Which weights of a stage are kept: of its i-th 16 keys and block b of queries, bits of
  /// kept_pairs() from bit 8 (blocks i + b) on.
  template <int sixteens, int blocks>
  __device__ std::uint64_t kept(int key) const {
    constexpr int kPairs = sixteens * blocks;
    static_assert(kPairs <= 8);
    std::uint64_t bits = 0;
#pragma unroll 1
    for (int i = 0; i < kPairs; ++i) {
      const int first_key = key + i / blocks * 16, query = first + i % blocks * 16;
      std::uint64_t of_pairs = 0;
      if (counts(first_key)) of_pairs = kept_pairs<false>(drawn, s, block, query, first_key);
      bits = bits >> 8 | of_pairs << 8 * (kPairs - 1);
    }
    return bits;
  }
};

/// Takes out what is not kept: bit 8 b + 4 n + e is of weights[b][n][e].
template <int blocks>
__device__ inline void drop_weights(Pairs<blocks>& weights, std::uint64_t kept) {
#pragma unroll
  for (int b = 0; b < blocks; ++b)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if ((kept >> (8 * b + 4 * n + e) & 1) == 0) weights[b][n][e] = 0;
}

/// One stage of keys and values, the first of which is `key`.
template <int steps, typename Dropout>
__device__ inline void attend_stage(OwnSums<steps>& sums,
                                    MmaRow (&rows)[MmaSizes<steps>::kBlocks][2],
                                    const OwnRows<steps>& queries,
                                    const MmaStage<steps>& stage,
                                    int key,
                                    const FwdWarp<Dropout>& warp) {
  using Sizes = MmaSizes<steps>;
  if (!warp.counts(key)) return;
  constexpr int kSixteens = Sizes::kWalked / 16;
  std::uint64_t kept = 0;
  if constexpr (Dropout::kDrops) kept = warp.template kept<kSixteens, Sizes::kBlocks>(key);
  StageScores<steps> scores = {};
#pragma unroll
  for (int i = 0; i < kSixteens; ++i) {
    if (warp.counts(key + 16 * i))
      multiply_walked<steps>(scores[i], queries, stage.first + 16 * i * Sizes::kStride);
    warp.mask(scores[i], key + 16 * i);
  }
#pragma unroll
  for (int b = 0; b < Sizes::kBlocks; ++b)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = rows[b][half].weigh(scores, b, half, warp.s.scale * kLog2E);
#pragma unroll
      for (int n = 0; n < 2 * steps; ++n)
        for (int c = 0; c < 2; ++c) sums[b][n][2 * half + c] *= factor;
    }
#pragma unroll
  for (int i = 0; i < kSixteens; ++i) {
    if (!warp.counts(key + 16 * i)) continue;
    if constexpr (Dropout::kDrops) drop_weights(scores[i], kept >> 8 * Sizes::kBlocks * i);
    PairFragments<Sizes::kBlocks> weights;
    round_pairs(weights, scores[i]);
    add_walked<steps>(sums, weights, stage.second + 16 * i * Sizes::kStride);
  }
}

template <int steps, typename Dropout>
__global__ void __launch_bounds__(kMmaThreads, 2)
    attention_mma_kernel(AttentionMmaArgs a, AttentionShape s, Dropout dropout) {
  wait_for_earlier_work();
  using Sizes = MmaSizes<steps>;
  using Stage = MmaStage<steps>;
  const HeadBlock block(s, s.causal, Sizes::kOwned);
  const MmaLane at;
  const int tokens = int(s.tokens);
  const int first = int(block.first_token) + warp_index() * Sizes::kWarpTokens;
  const FwdWarp<Dropout> warp{
      s, block, tokens, first, first + Sizes::kWarpTokens, WarpDropout<Dropout>(dropout)};
  const std::int64_t stride = s.packed_row();
  OwnRows<steps> queries;
  load_own<steps>(queries,
                  {a.qkv + block.packed(s, 0, first), stride, s.tokens - first, s.depth, true});
  OwnSums<steps> sums = {};
  MmaRow rows[Sizes::kBlocks][2];
  StageRows<steps> keys(a.qkv + block.packed(s, 1, 0), stride, s.depth);
  StageRows<steps> values(a.qkv + block.packed(s, 2, 0), stride, s.depth);
  const auto load = [&](AsyncCopies& copies, Stage& stage, int key) {
    keys.start(copies, stage.first, tokens - key);
    values.start(copies, stage.second, tokens - key);
  };
  const std::int64_t seen = block.first_token + Sizes::kOwned;
  walk_stages<Sizes::kWalked, Stage>(
      0, s.causal && seen < s.tokens ? int(seen) : tokens, load, [&](const Stage& stage, int key) {
        attend_stage(sums, rows, queries, stage, key, warp);
      });
  float inverse[Sizes::kBlocks][2];
#pragma unroll
  for (int b = 0; b < Sizes::kBlocks; ++b)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const MmaRow& row = rows[b][half];
      inverse[b][half] = dropout.scale / row.total;
      const int query = first + 16 * b + at.own(2 * half);
      if (at.t == 0 && query < tokens)
        a.lse[block.statistic(s, query)] = row.top * s.scale + logf(row.total);
    }
  store_own<steps>(
      a.y + block.plain(s, first), s.heads * s.depth, s.tokens - first, s.depth, sums, inverse);
}

/// Shapes for which fits_mma().
template <typename Dropout>
void start_attention_mma(const AttentionMmaArgs& args,
                         const AttentionShape& shape,
                         const Dropout& dropout,
                         cudaStream_t stream) {
  with_steps(shape.depth, [&](auto steps) {
    launch("attention on tensor cores",
           mma_launch_shape<steps, MmaStage<steps>>(shape, shape.heads),
           stream,
           attention_mma_kernel<steps, Dropout>,
           args,
           shape,
           dropout);
  });
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/attention_mma_dropout.cuh"
#include "kernels/cuda/attention/attention_mma_products.cuh"

/// What the two kernels of attention_bwd_mma.cuh have in common.
namespace lockstep::cuda {

struct AttentionBwdMmaArgs {
  const Bf16* qkv = nullptr;
  const Bf16* dy = nullptr;
  const float* lse = nullptr;
  const float* deltas = nullptr;  ///< [samples, heads, tokens]: dy . y
  Bf16* dqkv = nullptr;
};

/// A block's head, and this warp's tokens of it.
template <int steps, typename Dropout>
struct BwdWarp {
  using Sizes = MmaSizes<steps>;
  const AttentionBwdMmaArgs& a;
  const AttentionShape& s;
  const Dropout& dropout;
  const HeadBlock& block;
  WarpDropout<Dropout> drawn{dropout};
  int tokens = int(s.tokens);
  int first = int(block.first_token) + warp_index() * Sizes::kWarpTokens;
  float exponent = s.scale * kLog2E;

  /// Rows of this warp's tokens.
  __device__ TileSource<Bf16> own(int part) const {
    return {a.qkv + block.packed(s, part, first), packed_stride(), s.tokens - first, s.depth, true};
  }
  __device__ TileSource<Bf16> own_gradient() const {
    return {a.dy + block.plain(s, first), s.heads * s.depth, s.tokens - first, s.depth, true};
  }
  /// Rows of those walked over, from `token` on.
  __device__ StageRows<steps> walked(int part, std::int64_t token) const {
    return {a.qkv + block.packed(s, part, token), packed_stride(), s.depth};
  }
  __device__ StageRows<steps> walked_gradient(std::int64_t token) const {
    return {a.dy + block.plain(s, token), s.heads * s.depth, s.depth};
  }
  __device__ std::int64_t packed_stride() const { return s.packed_row(); }
  __device__ void store(int part, const OwnSums<steps>& sums, float factor) const {
    float factors[Sizes::kBlocks][2];
    for (auto& of_block : factors) of_block[0] = of_block[1] = factor;
    store_own<steps>(a.dqkv + block.packed(s, part, first),
                     packed_stride(),
                     s.tokens - first,
                     s.depth,
                     sums,
                     factors);
  }

  /// Whether some pair of this warp's tokens and the 16 from `walked` on counts.
  template <bool keys_own>
  __device__ bool counts(int walked) const {
    if (first >= tokens || walked >= tokens) return false;
    return !s.causal || (keys_own ? walked + 15 >= first : walked < first + Sizes::kWarpTokens);
  }
  /// Whether some pair does not. What comes of own tokens that do not exist is not stored.
  template <bool keys_own>
  __device__ bool is_masked(int walked) const {
    if (walked + 16 > tokens) return true;
    return s.causal && (keys_own ? walked < first + Sizes::kWarpTokens - 1 : walked + 15 > first);
  }
};

/// Of a query.
struct BwdStatistic {
  float lse = 0;  ///< times log2(e)
  float delta = 0;
};

/// Turns scores and dy . v of a warp's tokens and 16 walked ones into weights after dropout
/// (without its factor) and gradients of the scores (without 1 / sqrt(D)), zero where a key is not
/// seen. statistic_of(b, n, e): of the query of an element.
template <bool keys_own, int steps, typename Dropout, typename StatisticOf>
__device__ inline void weigh_pairs(Pairs<MmaSizes<steps>::kBlocks>& weights,
                                   Pairs<MmaSizes<steps>::kBlocks>& gradients,
                                   const BwdWarp<steps, Dropout>& warp,
                                   int walked,
                                   StatisticOf statistic_of) {
  const MmaLane at;
  const bool masked = warp.template is_masked<keys_own>(walked);
#pragma unroll
  for (int b = 0; b < MmaSizes<steps>::kBlocks; ++b) {
    const int own = warp.first + 16 * b;
    std::uint32_t kept = 0xff;
    if constexpr (Dropout::kDrops)
      kept = kept_pairs<keys_own>(
          warp.drawn, warp.s, warp.block, keys_own ? walked : own, keys_own ? own : walked);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float &weight = weights[b][n][e], &gradient = gradients[b][n][e];
        const BwdStatistic statistic = statistic_of(b, n, e);
        weight = exp2_approx(fmaf(weight, warp.exponent, -statistic.lse));
        const bool drops = Dropout::kDrops && (kept >> (4 * n + e) & 1) == 0;
        if (drops) gradient = 0;
        gradient = weight * fmaf(gradient, warp.dropout.scale, -statistic.delta);
        if (drops) weight = 0;
      }
    if (!masked) continue;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int mine = own + at.own(e), other = walked + at.walked(n, e);
        const int query = keys_own ? other : mine, key = keys_own ? mine : other;
        if (query < warp.tokens && key < warp.tokens && (!warp.s.causal || key <= query)) continue;
        weights[b][n][e] = gradients[b][n][e] = 0;
      }
  }
}

}  // namespace lockstep::cuda

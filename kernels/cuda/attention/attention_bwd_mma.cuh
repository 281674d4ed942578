// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/attention_bwd_mma_parts.cuh"

// Gradient of attention of bf16 on tensor cores, for shapes for which fits_mma().
//
// Two kernels (Note [Attention on tensor cores]): one whose blocks own keys, walk over the queries
// that see them and give dk and dv; one whose blocks own queries, walk over the keys and give dq.
// Both compute scores and dy . v, so that no sum needs an order among blocks: 4 + 3 products of T T
// D multiply-adds where one kernel would do with 5. That one adds to dq from every block of keys:
// by atomics, whose order changes bits, or in turns, in fp32 that needs workspace (4 T D bytes a
// head, 201 MB below), is read and written once for each tile of keys (1.8 GB at 128 of them: 0.3
// to 0.5 ms) and then turned to bf16 (0.1 ms), while blocks wait for each other. Two products more
// take 0.35 ms.
//
// Scores and dy . v are sums of products of bf16, exact in fp32; weights p and gradients ds are
// rounded to bf16 for the second products (as Dao 2023), which are summed in fp32 in the order of
// tokens. e^x by ex2.approx: its 2^-22, and 2^-24 |x| of its argument, are far below bf16's 2^-8.
// Masks are applied where the 16 walked tokens meet the diagonal or the end alone.
//
// At N = 64, heads = 12, T = 1,024, D = 64, causal, on an H100 (3.35 TB/s, 989 TFLOP/s of bf16, of
// which mma.sync reaches 62%: Luo et al. 2024, "Benchmarking and Dissecting the Nvidia Hopper GPU
// Architecture via Microbenchmarking"):
//   FLOPs: 14 T T D / 2 a head: 361 G, and 5% in pairs on the diagonal that masks hide: 0.62 ms.
//   Bytes: qkv and dy read by each kernel, y and dy for the deltas, dqkv written: 1.3 GB, 0.39 ms.
//     Stages come from the L2 cache: 0.9 GB a kernel.
//   Shared memory: 5/8 of the tensor cores' time (D <= 64; above, 5/4 of it).
//   Exponentials: 2 T T / 2 a head, 16 a clock and SM: 0.22 ms concurrently with the others.
// Bound by the tensor cores. Predicted: 1.2 ms, half of their rate, since a warp alone does not
// overlap its exponentials with its products, and an SM holds eight warps. Measured on an H200:
// 1.76 ms.
namespace lockstep::cuda {

/// Queries and dy of the walked tokens, and what is known of their rows.
template <int steps>
struct QueryStage : MmaStage<steps> {
  float lse[MmaSizes<steps>::kWalked], deltas[MmaSizes<steps>::kWalked];
};

template <int steps, typename Dropout>
__global__ void __launch_bounds__(kMmaThreads, 2)
    attention_bwd_keys_mma_kernel(AttentionBwdMmaArgs a, AttentionShape s, Dropout dropout) {
  wait_for_earlier_work();
  using Sizes = MmaSizes<steps>;
  using Stage = QueryStage<steps>;
  HeadBlock block = HeadBlock::of_keys(s, Sizes::kOwned);
  const BwdWarp<steps, Dropout> warp{a, s, dropout, block};
  OwnRows<steps> keys, values;
  load_own<steps>(keys, warp.own(1));
  load_own<steps>(values, warp.own(2));
  OwnSums<steps> dk = {}, dv = {};
  const int begin = s.causal ? int(block.first_token) : 0;
  // The first threads copy lse, as many others the deltas.
  static_assert(2 * Sizes::kWalked <= kMmaThreads);
  const int statistic = int(threadIdx.x) % Sizes::kWalked;
  const auto use = [&](const Stage& stage, int stage_query) {
#pragma unroll 1
    for (int row = 0; row < Sizes::kWalked; row += 16) {
      const int query = stage_query + row;
      if (!warp.template counts<true>(query)) continue;
      const Bf16* const query_rows = stage.first + row * Sizes::kStride;
      const Bf16* const gradient_rows = stage.second + row * Sizes::kStride;
      Pairs<Sizes::kBlocks> p = {}, ds = {};
      multiply_walked<steps>(p, keys, query_rows);
      multiply_walked<steps>(ds, values, gradient_rows);
      BwdStatistic statistics[2][2];
      for (int n = 0; n < 2; ++n)
        for (int e = 0; e < 2; ++e) {
          const int i = row + MmaLane().walked(n, e);
          statistics[n][e] = {stage.lse[i] * kLog2E, stage.deltas[i]};
        }
      weigh_pairs<true>(
          p, ds, warp, query, [&](int, int n, int e) { return statistics[n][e % 2]; });
      PairFragments<Sizes::kBlocks> factors;
      round_pairs(factors, p);
      add_walked<steps>(dv, factors, gradient_rows);
      round_pairs(factors, ds);
      add_walked<steps>(dk, factors, query_rows);
    }
  };
#pragma unroll 1
  for (int member = 0; member < s.group; ++member, ++block.head) {
    if (member > 0) __syncthreads();  // no thread reads the last head's stages any more
    StageRows<steps> queries = warp.walked(0, begin), gradients = warp.walked_gradient(begin);
    const float* next_statistic = (int(threadIdx.x) < Sizes::kWalked ? a.lse : a.deltas) +
                                  block.statistic(s, begin + statistic);
    const auto load = [&](AsyncCopies& copies, Stage& stage, int query) {
      queries.start(copies, stage.first, warp.tokens - query);
      gradients.start(copies, stage.second, warp.tokens - query);
      if (int(threadIdx.x) < 2 * Sizes::kWalked)
        copies.start<4>((int(threadIdx.x) < Sizes::kWalked ? stage.lse : stage.deltas) + statistic,
                        next_statistic,
                        query + statistic < warp.tokens);
      next_statistic += Sizes::kWalked;
    };
    walk_stages<Sizes::kWalked, Stage>(begin, warp.tokens, load, use);
  }
  warp.store(1, dk, s.scale);
  warp.store(2, dv, dropout.scale);
}

template <int steps, typename Dropout>
__global__ void __launch_bounds__(kMmaThreads, 2)
    attention_bwd_queries_mma_kernel(AttentionBwdMmaArgs a, AttentionShape s, Dropout dropout) {
  wait_for_earlier_work();
  using Sizes = MmaSizes<steps>;
  using Stage = MmaStage<steps>;
  const HeadBlock block(s, s.causal, Sizes::kOwned);
  const BwdWarp<steps, Dropout> warp{a, s, dropout, block};
  OwnRows<steps> queries, gradients;
  load_own<steps>(queries, warp.own(0));
  load_own<steps>(gradients, warp.own_gradient());
  BwdStatistic statistics[Sizes::kBlocks][2];
  for (int b = 0; b < Sizes::kBlocks; ++b)
    for (int half = 0; half < 2; ++half) {
      const int query = warp.first + 16 * b + MmaLane().own(2 * half);
      if (query >= warp.tokens) continue;
      const std::int64_t row = block.statistic(s, query);
      statistics[b][half] = {a.lse[row] * kLog2E, a.deltas[row]};
    }
  OwnSums<steps> dq = {};
  StageRows<steps> keys = warp.walked(1, 0), values = warp.walked(2, 0);
  const auto load = [&](AsyncCopies& copies, Stage& stage, int key) {
    keys.start(copies, stage.first, warp.tokens - key);
    values.start(copies, stage.second, warp.tokens - key);
  };
  const auto use = [&](const Stage& stage, int stage_key) {
#pragma unroll 1
    for (int row = 0; row < Sizes::kWalked; row += 16) {
      const int key = stage_key + row;
      if (!warp.template counts<false>(key)) continue;
      const Bf16* const key_rows = stage.first + row * Sizes::kStride;
      Pairs<Sizes::kBlocks> p = {}, ds = {};
      multiply_walked<steps>(p, queries, key_rows);
      multiply_walked<steps>(ds, gradients, stage.second + row * Sizes::kStride);
      weigh_pairs<false>(p, ds, warp, key, [&](int b, int, int e) { return statistics[b][e / 2]; });
      PairFragments<Sizes::kBlocks> factors;
      round_pairs(factors, ds);
      add_walked<steps>(dq, factors, key_rows);
    }
  };
  const std::int64_t seen = block.first_token + Sizes::kOwned;
  walk_stages<Sizes::kWalked, Stage>(
      0, s.causal && seen < s.tokens ? int(seen) : warp.tokens, load, use);
  warp.store(0, dq, s.scale);
}

/// Shapes for which fits_mma().
template <typename Dropout>
void start_attention_bwd_mma(const AttentionBwdMmaArgs& args,
                             const AttentionShape& shape,
                             const Dropout& dropout,
                             cudaStream_t stream) {
  with_steps(shape.depth, [&](auto steps) {
    launch("attention_bwd keys on tensor cores",
           mma_launch_shape<steps, QueryStage<steps>>(shape, shape.kv_heads),
           stream,
           attention_bwd_keys_mma_kernel<steps, Dropout>,
           args,
           shape,
           dropout);
    launch("attention_bwd queries on tensor cores",
           mma_launch_shape<steps, MmaStage<steps>>(shape, shape.heads),
           stream,
           attention_bwd_queries_mma_kernel<steps, Dropout>,
           args,
           shape,
           dropout);
  });
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/attention_bwd_mma_parts.cuh"

// Gradient of attention of bf16 on tensor cores, for shapes for which fits_mma(). NEVER RUN ON A
// GPU: emulated only, where the instructions of mma.cuh are their plain twins.
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
// overlap its exponentials with its products, and an SM holds eight warps.
namespace lockstep::cuda {

/// Queries and dy of the walked tokens, and what is known of their rows.
template <int steps>
struct QueryStage : MmaStage<steps> {
  float lse[MmaSizes<steps>::kWalked], deltas[MmaSizes<steps>::kWalked];
};

template <int steps>
__global__ void __launch_bounds__(kMmaThreads, 2)
    attention_bwd_keys_mma_kernel(AttentionBwdMmaArgs a, AttentionShape s, WeightDropout dropout) {
  using Sizes = MmaSizes<steps>;
  using Stage = QueryStage<steps>;
  const HeadBlock block(s, false, Sizes::kOwned);
  const BwdWarp<steps> warp{a, s, dropout, block};
  OwnRows<steps> keys, values;
  load_own<steps>(keys, warp.packed(1, warp.first));
  load_own<steps>(values, warp.packed(2, warp.first));
  OwnSums<steps> dk = {}, dv = {};
  const auto load = [&](AsyncCopies& copies, Stage& stage, int query) {
    start_rows<steps>(copies, stage.first, warp.packed(0, query));
    start_rows<steps>(copies, stage.second, warp.gradient(query));
    const int i = int(threadIdx.x) % Sizes::kWalked;
    const bool exists = query + i < warp.tokens;
    const std::int64_t from = block.statistic(s, exists ? query + i : 0);
    if (int(threadIdx.x) < Sizes::kWalked)
      copies.start<4>(stage.lse + i, a.lse + from, exists);
    else if (int(threadIdx.x) < 2 * Sizes::kWalked)
      copies.start<4>(stage.deltas + i, a.deltas + from, exists);
  };
  const auto use = [&](const Stage& stage, int stage_query) {
#pragma unroll 1
    for (int row = 0; row < Sizes::kWalked; row += 16) {
      const int query = stage_query + row;
      if (!warp.template counts<true>(query)) continue;
      const Bf16* const queries = stage.first + row * Sizes::kStride;
      const Bf16* const gradients = stage.second + row * Sizes::kStride;
      Pairs<Sizes::kBlocks> p = {}, ds = {};
      multiply_walked<steps>(p, keys, queries);
      multiply_walked<steps>(ds, values, gradients);
      BwdStatistic statistics[2][2];
      for (int n = 0; n < 2; ++n)
        for (int e = 0; e < 2; ++e) {
          const int i = row + MmaLane().walked(n, e);
          statistics[n][e] = {stage.lse[i] * kLog2E, stage.deltas[i]};
        }
      weigh_pairs<true, steps>(
          p, ds, warp, query, [&](int, int n, int e) { return statistics[n][e % 2]; });
      PairFragments<Sizes::kBlocks> factors;
      round_pairs(factors, p);
      add_walked<steps>(dv, factors, gradients);
      round_pairs(factors, ds);
      add_walked<steps>(dk, factors, queries);
    }
  };
  walk_stages<Sizes::kWalked, Stage>(s.causal ? int(block.first_token) : 0, warp.tokens, load, use);
  warp.store(1, dk, s.scale);
  warp.store(2, dv, dropout.scale);
}

template <int steps>
__global__ void __launch_bounds__(kMmaThreads, 2)
    attention_bwd_queries_mma_kernel(AttentionBwdMmaArgs a,
                                     AttentionShape s,
                                     WeightDropout dropout) {
  using Sizes = MmaSizes<steps>;
  using Stage = MmaStage<steps>;
  const HeadBlock block(s, s.causal, Sizes::kOwned);
  const BwdWarp<steps> warp{a, s, dropout, block};
  OwnRows<steps> queries, gradients;
  load_own<steps>(queries, warp.packed(0, warp.first));
  load_own<steps>(gradients, warp.gradient(warp.first));
  BwdStatistic statistics[Sizes::kBlocks][2];
  for (int b = 0; b < Sizes::kBlocks; ++b)
    for (int half = 0; half < 2; ++half) {
      const int query = warp.first + 16 * b + MmaLane().own(2 * half);
      if (query >= warp.tokens) continue;
      const std::int64_t row = block.statistic(s, query);
      statistics[b][half] = {a.lse[row] * kLog2E, a.deltas[row]};
    }
  OwnSums<steps> dq = {};
  const auto load = [&](AsyncCopies& copies, Stage& stage, int key) {
    start_rows<steps>(copies, stage.first, warp.packed(1, key));
    start_rows<steps>(copies, stage.second, warp.packed(2, key));
  };
  const auto use = [&](const Stage& stage, int stage_key) {
#pragma unroll 1
    for (int row = 0; row < Sizes::kWalked; row += 16) {
      const int key = stage_key + row;
      if (!warp.template counts<false>(key)) continue;
      const Bf16* const keys = stage.first + row * Sizes::kStride;
      Pairs<Sizes::kBlocks> p = {}, ds = {};
      multiply_walked<steps>(p, queries, keys);
      multiply_walked<steps>(ds, gradients, stage.second + row * Sizes::kStride);
      weigh_pairs<false, steps>(
          p, ds, warp, key, [&](int b, int, int e) { return statistics[b][e / 2]; });
      PairFragments<Sizes::kBlocks> factors;
      round_pairs(factors, ds);
      add_walked<steps>(dq, factors, keys);
    }
  };
  const std::int64_t seen = block.first_token + Sizes::kOwned;
  walk_stages<Sizes::kWalked, Stage>(
      0, s.causal && seen < s.tokens ? int(seen) : warp.tokens, load, use);
  warp.store(0, dq, s.scale);
}

/// Shapes for which fits_mma().
inline void start_attention_bwd_mma(const AttentionBwdMmaArgs& args,
                                    const AttentionShape& shape,
                                    const WeightDropout& dropout,
                                    cudaStream_t stream) {
  with_steps(shape.depth, [&](auto steps) {
    launch("attention_bwd keys on tensor cores",
           mma_launch_shape<steps, QueryStage<steps>>(shape),
           stream,
           attention_bwd_keys_mma_kernel<steps>,
           args,
           shape,
           dropout);
    launch("attention_bwd queries on tensor cores",
           mma_launch_shape<steps, MmaStage<steps>>(shape),
           stream,
           attention_bwd_queries_mma_kernel<steps>,
           args,
           shape,
           dropout);
  });
}

}  // namespace lockstep::cuda

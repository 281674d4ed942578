// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/attention_mma_parts.cuh"

// Note [Dropout of attention on tensor cores]
//
// Which weights are kept is a bit for each, drawn before the weights are there: a call of Philox
// for four neighbouring keys, of which a warp makes each once, and hands the bits over to the lanes
// whose fragments hold the weights. A call is about 60 instructions, 15 a weight, where all that is
// done else with a weight of 64 columns is 16 forward, and 24 and 19 backward. So what does not
// change from call to call is read once (WarpDropout), rows that do not begin with a call of their
// own cost a third call and a shift of bits, and loops over calls are not unrolled where their code
// would not fit into the instruction cache.
//
// On an H200, 64 samples of 256 tokens, six heads of 64 columns, with the calls of both cases in
// line and the counters read for each: 93 us forward and 233 backward, five times as long a product
// as without dropout.
namespace lockstep::cuda {

/// What decides which weights of a head are kept, in a thread's registers. Nothing for NoDropout.
template <typename Dropout>
struct WarpDropout {
  __device__ explicit WarpDropout(const Dropout&) {}
};

template <>
struct WarpDropout<WeightDropout> {
  std::uint64_t key, step, first_sample;
  std::uint32_t threshold;

  __device__ explicit WarpDropout(const WeightDropout& dropout)
      : key(dropout.key),
        step(dropout.counters.step()),
        first_sample(dropout.counters.first_sample()),
        threshold(dropout.threshold) {}

  /// Of weights [4 quad, 4 quad + 4) of a sample of the micro-batch: bit c is of weight 4 quad + c.
  __device__ std::uint32_t kept_quad(std::int64_t sample, std::uint32_t quad) const {
    const RandomBlock words =
        philox(key, step, (first_sample + std::uint64_t(sample)) << 32 | quad);
    std::uint32_t kept = 0;
#pragma unroll
    for (int c = 0; c < kQuad; ++c) kept |= std::uint32_t(words[std::size_t(c)] >= threshold) << c;
    return kept;
  }

  /// Of a query and the eight keys from `first_key` on.
  __device__ std::uint32_t kept_eight(const AttentionShape& s,
                                      const HeadBlock& block,
                                      int query,
                                      int first_key) const {
    const std::uint32_t row = std::uint32_t(block.head) * std::uint32_t(s.tokens) + unsigned(query);
    const std::uint64_t element =
        std::uint64_t(row) * std::uint32_t(s.tokens) + unsigned(first_key);
    const auto quad = std::uint32_t(element / kQuad);
    const unsigned skip = unsigned(element) % kQuad;
    std::uint32_t kept = kept_quad(block.sample, quad) | kept_quad(block.sample, quad + 1) << kQuad;
    if (skip > 0) kept |= kept_quad(block.sample, quad + 2) << 2 * kQuad;
    return kept >> skip & 0xff;
  }
};

/// Which weights of 16 queries and 16 keys from `query` and `key` on are kept: bit 4 n + e of the
/// result is element e of matrix n of this lane. All lanes of the warp call it.
template <bool keys_own>
__device__ inline std::uint32_t kept_pairs(const WarpDropout<WeightDropout>& dropout,
                                           const AttentionShape& s,
                                           const HeadBlock& block,
                                           int query,
                                           int key) {
  const MmaLane at;
  const int half_row = at.lane % 2 * 8;  // two lanes share a query
  std::uint32_t row = dropout.kept_eight(s, block, query + at.lane / 2, key + half_row) << half_row;
  row |= __shfl_xor_sync(kAllLanes, row, 1);
  std::uint32_t result = 0;
  if constexpr (keys_own) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // matrix i / 2, its columns' parity i % 2
      const std::uint32_t word =
          __shfl_sync(kAllLanes, row, 2 * at.walked(i / 2, i % 2)) >> at.own(0);
      result |= (word & 1) << (i / 2 * 4 + i % 2) | (word >> 8 & 1) << (i / 2 * 4 + 2 + i % 2);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t word =
          __shfl_sync(kAllLanes, row, 2 * at.own(2 * half)) >> at.walked(0, 0);
      result |= (word & 3) << 2 * half | (word >> 8 & 3) << (4 + 2 * half);
    }
  }
  return result;
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/loops/philox.h"
#include "kernels/cpu/loops/simd_math.h"
#include "kernels/cpu/loops/simd_reduce.h"
#include "kernels/cpu/loops/transpose_tile.h"

/// What attention and its gradient share.
namespace lockstep::cpu::LOCKSTEP_ISA {

/// Rows of a block on the diagonal that are worked on at once: what lies above the diagonal within
/// them is computed in vain.
inline constexpr std::int64_t kDiagonalRows = 12;

/// One head of one sample: offsets of the rows of token t.
struct HeadOf {
  LOCKSTEP_INLINE HeadOf(const AttentionShape& s, std::int64_t n, std::int64_t h)
      : sample(n),
        first(h),
        tokens(s.tokens),
        heads(s.heads),
        depth(s.depth),
        width(s.heads * s.depth),
        input_row(3 * s.heads * s.depth),
        scale(1.0f / __builtin_sqrtf(float(s.depth))) {}
  LOCKSTEP_INLINE std::int64_t query(std::int64_t t) const {
    return (sample * tokens + t) * input_row + first * depth;
  }
  LOCKSTEP_INLINE std::int64_t key(std::int64_t t) const { return query(t) + width; }
  LOCKSTEP_INLINE std::int64_t value(std::int64_t t) const { return query(t) + 2 * width; }
  LOCKSTEP_INLINE std::int64_t output(std::int64_t t) const {
    return (sample * tokens + t) * width + first * depth;
  }
  /// In [N, heads, T].
  LOCKSTEP_INLINE std::int64_t row(std::int64_t t) const {
    return (sample * heads + first) * tokens + t;
  }

  std::int64_t sample, first, tokens, heads, depth, width, input_row;
  float scale;
};

LOCKSTEP_INLINE void clear(float* values, std::int64_t count) {
  for_each_vec(count, [=](std::int64_t i, auto lanes) { store(values + i, zero(), lanes); });
}

/// out[r, :] = factor * in[r, :], rows of `depth` elements packed together.
LOCKSTEP_INLINE void copy_rows(float* out,
                               const float* in,
                               std::int64_t in_row,
                               std::int64_t rows,
                               std::int64_t depth,
                               float factor) {
  const Vec f = broadcast(factor);
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vec(depth, [=](std::int64_t d, auto lanes) {
      store(out + r * depth + d, f * load(in + r * in_row + d, lanes), lanes);
    });
}

/// out[b, d, j] = in[b * kAttentionBlock + j, d]: blocks of rows turned into columns.
LOCKSTEP_INLINE void transpose_blocks(
    float* out, const float* in, std::int64_t in_row, std::int64_t rows, std::int64_t depth) {
  for (std::int64_t r = 0; r < rows; r += kAttentionBlock)
    transpose_rows(out + r / kAttentionBlock * depth * kAttentionRow,
                   kAttentionRow,
                   in + r * in_row,
                   in_row,
                   at_most(kAttentionBlock, rows - r),
                   depth);
}

/// Calls `body(row, count, covered)` for parts of a block of scores: rows [row, row + count) need
/// the first `covered` keys.
template <typename Body>
LOCKSTEP_INLINE void for_each_part(std::int64_t rows, std::int64_t keys, bool diagonal, Body body) {
  if (!diagonal) return body(0, rows, keys);
  for (std::int64_t r = 0; r < rows; r += kDiagonalRows) {
    const std::int64_t count = at_most(kDiagonalRows, rows - r);
    body(r, count, r + count);
  }
}

/// The words that decide weights (head, query, key) for keys [key, key + count).
struct DropWords {
  std::uint32_t words[kAttentionBlock + kPhiloxStep + 4];
  const std::uint32_t* begin;

  LOCKSTEP_INLINE DropWords(const DropoutStream& stream,
                            const HeadOf& head,
                            std::int64_t query,
                            std::int64_t key,
                            std::int64_t count) {
    const std::int64_t element = (head.first * head.tokens + query) * head.tokens + key;
    const std::int64_t before = element % 4;
    sample_words(words,
                 stream,
                 stream.first_sample + std::uint64_t(head.sample),
                 std::uint64_t(element - before),
                 count + before);
    begin = words + before;
  }
  /// All ones where weight j is kept.
  LOCKSTEP_INLINE VecI kept(std::int64_t j, const DropoutStream& stream) const {
    VecU v;
    __builtin_memcpy(&v, begin + j, sizeof(v));
    return v >= stream.threshold - VecU{};
  }
};

/// Zeroes the dropped weights; those kept are not scaled.
LOCKSTEP_INLINE void drop_row(float* weights,
                              const DropoutStream& stream,
                              const HeadOf& head,
                              std::int64_t query,
                              std::int64_t key,
                              std::int64_t count) {
  const DropWords words(stream, head, query, key, count);
  for_each_vec(count, [&](std::int64_t j, auto lanes) {
    store(weights + j, words.kept(j, stream) ? load(weights + j, lanes) : zero(), lanes);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/loops/philox.h"
#include "kernels/cpu/loops/simd_math.h"
#include "kernels/cpu/loops/simd_reduce.h"
#include "kernels/cpu/loops/transpose_tile.h"

/// What attention and its gradient share.
namespace lockstep::cpu::LOCKSTEP_ISA {

/// Rows of a block on the diagonal that are worked on at once: what lies above the diagonal within
/// them is computed for no use.
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
        input_row((s.heads + 2 * s.kv_heads) * s.depth),
        keys((s.heads + h / (s.heads / s.kv_heads)) * s.depth),
        values(keys + s.kv_heads * s.depth),
        scale(1.0f / __builtin_sqrtf(float(s.depth))) {}
  LOCKSTEP_INLINE std::int64_t query(std::int64_t t) const {
    return (sample * tokens + t) * input_row + first * depth;
  }
  LOCKSTEP_INLINE std::int64_t key(std::int64_t t) const {
    return (sample * tokens + t) * input_row + keys;
  }
  LOCKSTEP_INLINE std::int64_t value(std::int64_t t) const {
    return (sample * tokens + t) * input_row + values;
  }
  LOCKSTEP_INLINE std::int64_t output(std::int64_t t) const {
    return (sample * tokens + t) * width + first * depth;
  }
  /// In [N, heads, T].
  LOCKSTEP_INLINE std::int64_t row(std::int64_t t) const {
    return (sample * heads + first) * tokens + t;
  }

  std::int64_t sample, first, tokens, heads, depth, width, input_row;
  std::int64_t keys, values;  // columns before those of this head
  float scale;
};

/// out[r, :] = factor * in[r, :], rows of `depth` elements packed together.
template <typename T>
LOCKSTEP_INLINE void copy_rows(float* out,
                               const T* in,
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
LOCKSTEP_INLINE void transpose_blocks(float* out,
                                      const float* in,
                                      std::int64_t in_row,
                                      std::int64_t rows,
                                      std::int64_t depth,
                                      float* /*widened*/) {
  for (std::int64_t r = 0; r < rows; r += kAttentionBlock)
    transpose_rows(out + r / kAttentionBlock * depth * kAttentionRow,
                   kAttentionRow,
                   in + r * in_row,
                   in_row,
                   at_most(kAttentionBlock, rows - r),
                   depth);
}
/// The same of bf16, by way of fp32 rows in `widened`, [rows, depth].
LOCKSTEP_INLINE void transpose_blocks(float* out,
                                      const Bf16* in,
                                      std::int64_t in_row,
                                      std::int64_t rows,
                                      std::int64_t depth,
                                      float* widened) {
  copy_rows(widened, in, in_row, rows, depth, 1.0f);
  transpose_blocks(out, widened, depth, rows, depth, nullptr);
}

/// Rows of a block of scores that are worked on together, and how many keys they need.
struct ScorePart {
  std::int64_t row, count;
  std::int64_t covered;
  bool diagonal;
  /// Keys up to the end of a vector: products write whole vectors, which can be read again at once
  /// while partial ones have to reach the cache first. Columns are padded with zeros this far.
  LOCKSTEP_INLINE std::int64_t padded() const { return vectors() * kLanes; }
  LOCKSTEP_INLINE std::int64_t vectors() const { return (covered + kLanes - 1) / kLanes; }
  /// Keys that row `i` of the part sees.
  LOCKSTEP_INLINE std::int64_t visible(std::int64_t i) const {
    return diagonal ? row + i + 1 : covered;
  }
};

template <int count>
struct VectorCount {
  static constexpr int value = count;
};

/// Calls `body` with the parts of a block of scores.
template <typename Body>
LOCKSTEP_INLINE void for_each_part(std::int64_t rows, std::int64_t keys, bool diagonal, Body body) {
  if (!diagonal) return body(ScorePart{0, rows, keys, false});
  for (std::int64_t r = 0; r < rows; r += kDiagonalRows) {
    const std::int64_t count = at_most(kDiagonalRows, rows - r);
    body(ScorePart{r, count, r + count, true});
  }
}

/// Vectors at the end of a row of scores that may hold keys which the row does not see.
inline constexpr int kMaskedVectors = (kDiagonalRows - 2) / kLanes + 2;

struct MaskTable {
  static constexpr int kHalf = kMaskedVectors * kLanes;
  std::int32_t bits[2 * kHalf] = {};  // ones, then zeros
  constexpr MaskTable() {
    for (int i = 0; i < kHalf; ++i) bits[i] = -1;
  }
};

namespace {
constexpr MaskTable kMaskTable;
}

/// Which lanes of a row of `vectors` vectors belong to keys that it sees.
template <int vectors>
class RowMask {
 public:
  LOCKSTEP_INLINE explicit RowMask(std::int64_t visible) {
    const std::int64_t masked =
        at_most(visible - (vectors - kMaskedVectors) * kLanes, MaskTable::kHalf);
    ones_ = kMaskTable.bits + MaskTable::kHalf - masked;
  }
  /// Vector `j` of a row, with `other` where a key is not seen.
  LOCKSTEP_INLINE Vec apply(int j, Vec v, Vec other) const {
    if (j < vectors - kMaskedVectors) return v;
    VecI bits;
    __builtin_memcpy(&bits, ones_ + (j - (vectors - kMaskedVectors)) * kLanes, sizeof(bits));
#ifdef __AVX512F__
    return Vec(_mm512_ternarylogic_epi32(__m512i(bits), __m512i(v), __m512i(other), 0xca));
#else
    return _mm256_blendv_ps(other, v, __m256(bits));
#endif
  }

 private:
  const std::int32_t* ones_;
};

/// Calls `body` with the number of vectors of a row of scores as a constant.
template <int count = kAttentionBlock / kLanes, typename Body>
LOCKSTEP_INLINE void with_vectors(std::int64_t vectors, Body body) {
  if constexpr (count > 0) {
    if (vectors == count)
      body(VectorCount<count>{});
    else
      with_vectors<count - 1>(vectors, body);
  }
}

/// The words that decide weights (head, query, key) for keys [key, key + count).
class DropWords {
 public:
  LOCKSTEP_INLINE void draw(const DropoutStream& stream,
                            const HeadOf& head,
                            std::int64_t query,
                            std::int64_t key,
                            std::int64_t count) {
    const std::int64_t element = (head.first * head.tokens + query) * head.tokens + key;
    before_ = element % 4;
    sample_words(words_,
                 stream,
                 stream.first_sample + std::uint64_t(head.sample),
                 std::uint64_t(element - before_),
                 count + before_);
  }
  /// All ones where weight j is kept; without meaning from `count` on.
  LOCKSTEP_INLINE VecI kept(std::int64_t j, const DropoutStream& stream) const {
    VecU v;
    __builtin_memcpy(&v, words_ + before_ + j, sizeof(v));
    return v >= stream.threshold - VecU{};
  }

 private:
  std::uint32_t words_[kAttentionBlock + kPhiloxStep + 4];
  std::int64_t before_;
};

/// Zeroes the dropped weights of a part; those kept are not scaled.
LOCKSTEP_INLINE void drop_part(float* weights,
                               const DropoutStream& stream,
                               const HeadOf& head,
                               const ScorePart& part,
                               std::int64_t first_query,
                               std::int64_t key) {
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::int64_t visible = part.visible(i);
    DropWords words;
    words.draw(stream, head, first_query + part.row + i, key, visible);
    float* const row = weights + i * kAttentionRow;
    for (std::int64_t j = 0; j < visible; j += kLanes)
      store(row + j, words.kept(j, stream) ? load(row + j) : zero());
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA

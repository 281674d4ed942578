// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/small_gemm.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

inline constexpr int kTile = 8;

/// Turns eight rows of eight into eight columns.
LOCKSTEP_INLINE void transpose_tile(__m256 (&v)[kTile]) {
  __m256 pairs[kTile], quads[kTile];
  for (int i = 0; i < kTile; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  for (int i = 0; i < kTile; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

#ifdef __AVX512F__

/// Two tiles next to each other go out as whole vectors, a cache line each. Does what fills such
/// pairs of `rows` and `cols` and returns how many rows that is.
LOCKSTEP_INLINE std::int64_t transpose_pairs(float* out,
                                             std::int64_t out_row,
                                             const float* in,
                                             std::int64_t in_row,
                                             std::int64_t rows,
                                             std::int64_t cols) {
  std::int64_t r = 0;
  for (; r + 2 * kTile <= rows; r += 2 * kTile)
    for (std::int64_t c = 0; c + kTile <= cols; c += kTile) {
      const float* const from = in + r * in_row + c;
      __m256 left[kTile], right[kTile];
      for (int i = 0; i < kTile; ++i) left[i] = _mm256_loadu_ps(from + i * in_row);
      for (int i = 0; i < kTile; ++i) right[i] = _mm256_loadu_ps(from + (kTile + i) * in_row);
      transpose_tile(left);
      transpose_tile(right);
      float* const to = out + c * out_row + r;
      for (int i = 0; i < kTile; ++i)
        store(to + i * out_row, _mm512_insertf32x8(_mm512_castps256_ps512(left[i]), right[i], 1));
    }
  return r;
}

#else

LOCKSTEP_INLINE std::int64_t transpose_pairs(
    float*, std::int64_t, const float*, std::int64_t, std::int64_t, std::int64_t) {
  return 0;
}

#endif

/// out[c * out_row + r] = in[r * in_row + c] for r < rows, zero up to the next multiple of
/// kTransposeAlign; out_row is that multiple at least.
LOCKSTEP_INLINE void transpose_rows(float* out,
                                    std::int64_t out_row,
                                    const float* in,
                                    std::int64_t in_row,
                                    std::int64_t rows,
                                    std::int64_t cols) {
  const std::int64_t padded = (rows + kTransposeAlign - 1) / kTransposeAlign * kTransposeAlign;
  const std::int64_t in_pairs = transpose_pairs(out, out_row, in, in_row, rows, cols);
  for (std::int64_t r = 0; r < padded; r += kTile) {
    const int rows_here = int(rows - r < kTile ? (rows > r ? rows - r : 0) : kTile);
    const std::int64_t done = r < in_pairs ? cols / kTile * kTile : 0;
    for (std::int64_t c = done; c < cols; c += kTile) {
      const int cols_here = int(cols - c < kTile ? cols - c : kTile);
      const float* const from = in + r * in_row + c;
      float* const to = out + c * out_row + r;
      __m256 tile[kTile];
      if (rows_here == kTile && cols_here == kTile) {
        for (int i = 0; i < kTile; ++i) tile[i] = _mm256_loadu_ps(from + i * in_row);
        transpose_tile(tile);
        for (int i = 0; i < kTile; ++i) _mm256_storeu_ps(to + i * out_row, tile[i]);
        continue;
      }
      const __m256i lanes = first_of_eight(cols_here);
      for (int i = 0; i < kTile; ++i)
        tile[i] =
            i < rows_here ? _mm256_maskload_ps(from + i * in_row, lanes) : _mm256_setzero_ps();
      transpose_tile(tile);
      for (int i = 0; i < cols_here; ++i) _mm256_storeu_ps(to + i * out_row, tile[i]);
    }
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA

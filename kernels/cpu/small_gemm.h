// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

namespace lockstep::cpu {

/// Columns of a panel; see SmallGemm.
inline constexpr std::int64_t kPanel = 32;

/// C(m, n) = bias(n) + sum_k A(m, k) B(k, n), or C += that sum. Strides in elements.
struct SmallGemm {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;  ///< A(m, k) = a[m * a_row + k * a_col], any strides
  std::int64_t a_row = 0, a_col = 1;
  const float* b = nullptr;  ///< B(k, n) = b[k * b_row + n / kPanel * b_panel + n % kPanel]
  std::int64_t b_row = 0;
  float* c = nullptr;  ///< C(m, n) = c[m * c_row + n]
  std::int64_t c_row = 0;
  const float* bias = nullptr;    ///< [n] or null
  std::int64_t b_panel = kPanel;  ///< kPanel: plain rows; else panels, which are read as they lie
};

/// GEMMs whose operands fit the L2 cache, at a cost of some 20 ns in addition to the arithmetic.
/// Each element of C is one chain of fused multiply-adds over k in order, which starts at the bias
/// or zero; with `accumulate` the finished chain is added to C. So an element's bits depend on its
/// row of A, its column of B and k alone, not on m, n or the blocking.
/// Nothing beyond the given elements is read or written. Sizes may be zero.
LOCKSTEP_LOOP(void, small_gemm, (const SmallGemm& gemm, bool accumulate));

/// Columns of the packed transpose are padded to this many elements.
inline constexpr std::int64_t kTransposeAlign = 16;

/// Elements of a matrix B of `rows` rows and `cols` columns in panels.
inline std::int64_t panels_elems(std::int64_t rows, std::int64_t cols) {
  return (cols + kPanel - 1) / kPanel * kPanel * rows;
}

/// The transpose of in [cols, rows] in panels: b_row is kPanel, b_panel rows * kPanel. What a last
/// panel has beyond `cols` is not written, or zero.
LOCKSTEP_LOOP(void,
              transpose_to_panels,
              (float* panels, const float* in, std::int64_t rows, std::int64_t cols));

inline constexpr std::int64_t kColumnSumBlock = 256;

/// out[c] (=|+=) sum over rows of in[r * cols + c]. Blocks of kColumnSumBlock rows are summed, in
/// four interleaved chains each, and their sums added in order: fixed, and short of the error that
/// one chain over all pixels of a batch collects.
LOCKSTEP_STORED_LOOP(
    void,
    column_sums,
    (float* out, const T* in, std::int64_t rows, std::int64_t cols, bool accumulate));

}  // namespace lockstep::cpu

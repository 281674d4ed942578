// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/transpose_tile.h"
#include "kernels/cpu/small_gemm.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Sums of `rows` rows: four interleaved chains, to cover the latency of an addition.
template <typename T>
LOCKSTEP_INLINE Vec block_sums(const T* in, std::int64_t rows, std::int64_t cols, Mask lanes) {
  constexpr int kSums = 4;
  Vec sum[kSums] = {zero(), zero(), zero(), zero()};
  std::int64_t r = 0;
  for (; r + kSums <= rows; r += kSums, in += kSums * cols)
    for (int j = 0; j < kSums; ++j) sum[j] = sum[j] + load(in + j * cols, lanes);
  for (int j = 0; j < kSums - 1; ++j)
    if (r + j < rows) sum[j] = sum[j] + load(in + j * cols, lanes);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

void transpose_to_panels(float* panels, const float* in, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; c += kPanel)
    transpose_rows(panels + c * rows, kPanel, in + c * rows, rows, at_most(kPanel, cols - c), rows);
}

template <typename T>
void column_sums(float* out, const T* in, std::int64_t rows, std::int64_t cols, bool accumulate) {
  for (std::int64_t c = 0; c < cols; c += kLanes) {
    const Mask lanes = first_lanes(cols - c < kLanes ? cols - c : kLanes);
    Vec total = zero();
    for (std::int64_t r = 0; r < rows; r += kColumnSumBlock) {
      const std::int64_t rows_here = rows - r < kColumnSumBlock ? rows - r : kColumnSumBlock;
      total = total + block_sums(in + r * cols + c, rows_here, cols, lanes);
    }
    if (accumulate) total = load(out + c, lanes) + total;
    store(out + c, total, lanes);
  }
}

LOCKSTEP_INSTANTIATE(column_sums);

}  // namespace lockstep::cpu::LOCKSTEP_ISA

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "core/ops/pooling/pool2d.h"
#include "kernels/cuda/group_access.cuh"

/// What pooling kernels share: extents, windows, and which elements a thread computes. A block
/// takes lines of the result (one sample and row); its threads take groups of neighbouring channels
/// of the line's positions. Coordinates are 32 bits wide, since their divisions would otherwise
/// cost more than the memory; offsets of lines are 64.
namespace lockstep::cuda {

/// n / d by a multiplication (Granlund and Montgomery 1994, "Division by invariant integers using
/// multiplication", section 4), for 0 <= n < 2^31 and d < 2^31; 0 counts as 1.
class Divisor {
 public:
  explicit Divisor(std::int64_t divisor) {
    const std::uint64_t one = 1, d = std::max(std::uint64_t(divisor), one);
    shift_ = std::bit_width(d - 1);
    factor_ = std::uint32_t((((one << shift_) - d) << 32) / d + 1);
  }
  __device__ int quotient(int n) const {
    return int((__umulhi(unsigned(n), factor_) + unsigned(n)) >> shift_);
  }

 private:
  int shift_;
  std::uint32_t factor_;
};

/// One direction of a window.
struct PoolAxis {
  int input, output;  ///< extents
  int kernel, padding;
  int stride;
  Divisor by_stride;
};

/// Extents of one pooling operator: input [n, y.input, x.input, c], output [n, y.output, x.output,
/// c].
struct PoolShape {
  std::int64_t n;
  int c;
  PoolAxis y, x;
};

/// So that sums of a coordinate and a window fit 32 bits.
inline constexpr std::int64_t kMaxOfLine = std::int64_t{1} << 30;

/// `input` [N, H, W, C] and `output` [N, P, Q, C] of the forward operator.
inline PoolShape pool_shape(const ops::Pool2dAttrs& a, const Shape& input, const Shape& output) {
  const auto axis = [](std::int64_t in, std::int64_t out, int kernel, int padding, int stride) {
    return PoolAxis{int(in), int(out), kernel, padding, stride, Divisor(stride)};
  };
  LOCKSTEP_CHECK(
      input[1] <= kMaxOfLine && input[2] * input[3] <= kMaxOfLine,
      ShapeError,
      "pooling: an image has at most 2^30 rows, and 2^30 values in each, on CUDA; got {}",
      input.to_string());
  return {.n = input[0],
          .c = int(input[3]),
          .y = axis(input[1], output[1], a.kernel_h, a.padding_h, a.stride_h),
          .x = axis(input[2], output[2], a.kernel_w, a.padding_w, a.stride_w)};
}

struct PoolRange {
  int begin, end;
};

/// Input positions that window `index` covers, of those inside the image.
__device__ inline PoolRange covered(int index, const PoolAxis& axis) {
  const int start = index * axis.stride - axis.padding, end = start + axis.kernel;
  return {start < 0 ? 0 : start, end < axis.input ? end : axis.input};
}

/// Windows that cover input position `index`.
__device__ inline PoolRange windows(int index, const PoolAxis& axis) {
  const int from = index + axis.padding - axis.kernel;  // the last window that ends before it
  const int end = axis.by_stride.quotient(index + axis.padding) + 1;
  return {from < 0 ? 0 : axis.by_stride.quotient(from) + 1, end < axis.output ? end : axis.output};
}

/// Calls `body(n, row, column, channel, at)` for this thread's groups of N channels of a tensor
/// [samples, rows, columns, c], `at` being their offset. Grid: (samples, rows or fewer).
template <int N, typename Body>
__device__ inline void for_each_in_lines(int rows, int columns, int c, Divisor groups, Body body) {
  const std::int64_t n = blockIdx.x;
  const int items = columns * (c / N);
  for (int row = int(blockIdx.y); row < rows; row += int(gridDim.y))
    for (int item = int(threadIdx.x); item < items; item += int(blockDim.x)) {
      const int column = groups.quotient(item), channel = (item - column * (c / N)) * N;
      body(n, row, column, channel, (n * rows + row) * columns * c + std::int64_t{item} * N);
    }
}

/// Threads for lines of `items` groups, all about equally busy.
inline LaunchShape cover_lines(std::int64_t samples, int rows, std::int64_t items) {
  constexpr int kMaxRows = 65535;  // of a grid
  if (items == 0) return {.grid = dim3(0)};
  const std::int64_t rounds = ceil_div(items, kBlock);
  const std::int64_t threads = ceil_div(ceil_div(items, rounds), kWarp) * kWarp;
  return {.grid = dim3(unsigned(samples), unsigned(std::min(rows, kMaxRows))),
          .block = dim3(unsigned(threads))};
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/pool2d.h"
#include "kernels/cuda/group_access.cuh"

/// What pooling kernels share: extents, windows, and which element a thread computes.
namespace lockstep::cuda {

/// Extents of one pooling operator: input [n, h, w, c], output [n, p, q, c].
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0, p = 0, q = 0;
  int kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0;
};

/// `input` [N, H, W, C] and `output` [N, P, Q, C] of the forward operator.
inline PoolShape pool_shape(const ops::Pool2dAttrs& attrs,
                            const Shape& input,
                            const Shape& output) {
  return {.n = input[0],
          .h = input[1],
          .w = input[2],
          .c = input[3],
          .p = output[1],
          .q = output[2],
          .kernel_h = attrs.kernel_h,
          .kernel_w = attrs.kernel_w,
          .stride_h = attrs.stride_h,
          .stride_w = attrs.stride_w,
          .padding_h = attrs.padding_h,
          .padding_w = attrs.padding_w};
}

struct PoolRange {
  std::int64_t begin, end;
};

/// Input positions that window `index` covers, of those inside an image of `extent`.
__device__ inline PoolRange covered(
    std::int64_t index, int stride, int padding, int kernel, std::int64_t extent) {
  const std::int64_t start = index * stride - padding, end = start + kernel;
  return {start < 0 ? 0 : start, end < extent ? end : extent};
}

/// Windows that cover input position `index`.
__device__ inline PoolRange windows(
    std::int64_t index, int stride, int padding, int kernel, std::int64_t count) {
  const std::int64_t from = index + padding - kernel;  // the last window that ends before it
  const std::int64_t end = (index + padding) / stride + 1;
  return {from < 0 ? 0 : from / stride + 1, end < count ? end : count};
}

/// Where item number `item` of [n, rows, columns, groups] lies.
struct PoolPlace {
  std::int64_t n, row, column, group;
};
__device__ inline PoolPlace pool_place(std::int64_t item,
                                       std::int64_t rows,
                                       std::int64_t columns,
                                       std::int64_t groups) {
  const std::int64_t position = item / groups, line = position / columns, n = line / rows;
  return {n, line - n * rows, position - line * columns, item - position * groups};
}

}  // namespace lockstep::cuda

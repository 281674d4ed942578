// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/convert.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

/// What the kernels of fully connected layers share.
namespace lockstep::cuda {

struct LinearExtents {
  std::int64_t rows, in, out;
  std::int64_t padded_out;  ///< length of the rows of y, or dy; beyond `out` they hold zeros
  bool empty() const { return rows * in * out == 0; }
};

/// Rows of [N, ..., features].
inline std::int64_t rows_of(const TensorType& type) {
  return Shape(type.shape.dims().first(std::size_t(type.shape.rank() - 1))).elems();
}

/// The bf16 copy of the weight, with rows of zeros for the padding of y: so that extents of the
/// GEMMs, too, are multiples of what the matrix units like.
inline void pack_weight(const Device& device,
                        const LinearExtents& e,
                        void* copy,
                        const float* weight) {
  const std::int64_t elems = e.in * e.out;
  round_to_bf16(device, copy, weight, elems);
  if (e.padded_out == e.out) return;
  const std::size_t bytes = std::size_t((e.padded_out - e.out) * e.in) * size_in_bytes(DType::bf16);
  void* const end = static_cast<std::byte*>(copy) + std::size_t(elems) * size_in_bytes(DType::bf16);
  check(cudaMemsetAsync(end, 0, bytes, device.compute), "padding of a weight");
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

namespace lockstep::cuda {

/// values: [rows, columns] of `type`, f32 or bf16, aligned to 16 bytes; rows are `pitch` elements
/// apart.
struct ColumnSums {
  const void* values = nullptr;
  DType type = DType::f32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t pitch = 0;     ///< 0: `columns`
  float* sums = nullptr;      ///< [columns]
  bool accumulate = false;    ///< add to what is there
  void* workspace = nullptr;  ///< column_sums_workspace(rows, columns) bytes, aligned to 4
};

/// sums[c] = sum over r of values[r, c] + (accumulate ? sums[c] : 0), in fp32, in an order that the
/// extents and the type fix. Enqueued on the device's compute stream.
void column_sums(const Device& device, const ColumnSums& what);
std::size_t column_sums_workspace(std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::cpu {

/// The GEMMs of a fully connected layer.
struct LinearExtents {
  std::int64_t rows = 0, in = 0, out = 0;
  std::int64_t out_pitch = 0;  ///< elements from a row of y, or dy, to the next
};

/// Zeros after the first `columns` elements of each row, up to the next row.
template <typename T>
void zero_padding(T* values, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  if (columns == pitch) return;
  for (std::int64_t r = 0; r < rows; ++r)
    std::fill_n(values + r * pitch + columns, pitch - columns, T{});
}

}  // namespace lockstep::cpu

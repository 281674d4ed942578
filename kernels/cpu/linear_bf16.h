// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/exec/kernel.h"

/// Fully connected layers whose activations are bf16, where the processor multiplies bf16:
/// oneDNN's matrix product, which on a Zen 4 core reaches 230 GFLOP/s (forward and backward data)
/// and 205 (weights) from 192 x 128 times 128 x 128 on, twice what fp32 does; its overhead is in
/// these figures.
namespace lockstep::cpu {

struct LinearExtents {
  std::int64_t rows = 0, in = 0, out = 0;  ///< all positive
  std::int64_t out_pitch = 0;              ///< elements from a row of y, or dy, to the next
};

/// Zeros behind the first `columns` elements of each row, up to the next row.
template <typename T>
void zero_padding(T* values, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  if (columns == pitch) return;
  for (std::int64_t r = 0; r < rows; ++r)
    std::fill_n(values + r * pitch + columns, pitch - columns, T{});
}

std::unique_ptr<Kernel> make_bf16_linear(const LinearExtents& e, bool bias, const KernelSpec& spec);
std::unique_ptr<Kernel> make_bf16_linear_bwd_data(const LinearExtents& e, const KernelSpec& spec);
std::unique_ptr<Kernel> make_bf16_linear_bwd_weights(const LinearExtents& e,
                                                     bool bias,
                                                     const KernelSpec& spec);

}  // namespace lockstep::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

struct Range {
  std::int64_t begin, end;
};

/// Input positions that pooling window `index` covers, of those inside an image of `extent`.
LOCKSTEP_INLINE Range
covered(std::int64_t index, int stride, int padding, int kernel, std::int64_t extent) {
  const std::int64_t start = index * stride - padding;
  return {at_least(start, 0), at_most(start + kernel, extent)};
}

/// Windows that cover input position `index`.
LOCKSTEP_INLINE Range
windows(std::int64_t index, int stride, int padding, int kernel, std::int64_t count) {
  const std::int64_t from = index + padding - kernel;  // the last window that ends before it
  return {from < 0 ? 0 : from / stride + 1, at_most((index + padding) / stride + 1, count)};
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA

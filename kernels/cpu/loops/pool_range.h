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

}  // namespace lockstep::cpu::LOCKSTEP_ISA

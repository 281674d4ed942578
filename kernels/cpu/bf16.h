// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::cpu {

/// An element of type DType::bf16: the upper half of an fp32. Loops compute in fp32; load and store
/// of loops/simd.h convert.
struct Bf16 {
  std::uint16_t bits = 0;
};

}  // namespace lockstep::cpu

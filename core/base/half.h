// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace lockstep {

/// The number of an IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction. f32 holds each
/// exactly.
inline float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * float(fraction) * 0x1p-24f;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(float(1024 + fraction), exponent - 25);
}

}  // namespace lockstep

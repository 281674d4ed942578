// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/loops/simd_int.h"

/// Exponential and logarithm of a vector, as far as losses need them. The polynomials interpolate
/// at Chebyshev nodes; tests measure the errors stated here.
namespace lockstep::cpu::LOCKSTEP_ISA {

LOCKSTEP_INLINE VecI bits_of(Vec v) { return VecI(v); }
LOCKSTEP_INLINE Vec from_bits(VecI v) { return Vec(v); }

/// e^x for x <= 0 within 1.25 ulp; results below the smallest normal number are zero, NaN stays
/// NaN.
LOCKSTEP_INLINE Vec exp_nonpositive(Vec x) {
  // x = k ln 2 + r with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to an integer in the low bits.
  const Vec magic = broadcast(0x1.8p23f);
  const Vec shifted = fma(x, broadcast(0x1.715476p0f), magic);
  const Vec k = shifted - magic;
  Vec r = fma(k, broadcast(-0x1.62e4p-1f), x);  // ln 2 in two parts, the first with 15 bits
  r = fma(k, broadcast(-0x1.7f7d1cp-20f), r);
  Vec p = broadcast(1.3926183587713494e-3f);
  p = fma(p, r, broadcast(8.363179052722578e-3f));
  p = fma(p, r, broadcast(4.1666554617204574e-2f));
  p = fma(p, r, broadcast(1.6666576989698775e-1f));
  p = fma(p, r, broadcast(0.5f));
  const Vec result = fma(r * r, p, r) + broadcast(1.0f);
  // Unsigned, since far below zero it overflows.
  const VecU exponent = (VecU(shifted) - VecU(magic)) << 23;
  // Below -87.33 the exponent would leave the normal range.
  return x < broadcast(-87.33f) ? zero() : Vec(VecU(result) + exponent);
}

/// ln x for finite x >= 1 within 1.5 ulp; NaN stays NaN.
LOCKSTEP_INLINE Vec log_from_one(Vec x) {
  // x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const VecI offset = bits_of(x) - broadcast_int(0x3f3504f3);
  const Vec k = to_float(offset >> 23);
  const Vec f =
      from_bits((offset & broadcast_int(0x7fffff)) + broadcast_int(0x3f3504f3)) - broadcast(1.0f);
  // Even and odd coefficients apart: half the latency.
  const Vec square = f * f;
  Vec even = broadcast(6.971611471451178e-2f), odd = broadcast(-1.1479733846637635e-1f);
  even = fma(even, square, broadcast(1.168541992348674e-1f));
  odd = fma(odd, square, broadcast(-1.2425687331451106e-1f));
  even = fma(even, square, broadcast(1.424905764569748e-1f));
  odd = fma(odd, square, broadcast(-1.6667802319501254e-1f));
  even = fma(even, square, broadcast(2.00007157488921e-1f));
  odd = fma(odd, square, broadcast(-2.4999996957950882e-1f));
  even = fma(even, square, broadcast(3.3333331180030046e-1f));
  const Vec p = fma(odd, f, even);
  // ln(1 + f) = f + (f^3 p - f^2 / 2), to which k ln 2 is added in two parts.
  const Vec low = fma(k, broadcast(0x1.7f7d1cp-20f), fma(square * f, p, broadcast(-0.5f) * square));
  const Vec result = fma(k, broadcast(0x1.62e4p-1f), f + low);
  return x == x ? result : x;
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA

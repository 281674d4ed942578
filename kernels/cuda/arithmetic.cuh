// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/exp2_approx.cuh"
#include "kernels/cuda/vector_access.cuh"

/// Functions of one fp32 value. Those for operands stored as fp32 use the formulas of
/// kernels/cpu/loops/simd_math.h, operation by operation, and give the CPU's bits; for bf16, whose
/// eight bits hide their error of 2^-21, the device's approximations cost a quarter.
namespace lockstep::cuda {

/// ((first * u + next) * u + ...), fused.
template <typename... More>
__device__ inline float horner(float u, float first, float next, More... more) {
  const float p = fmaf(first, u, next);
  if constexpr (sizeof...(More) > 0)
    return horner(u, p, more...);
  else
    return p;
}

/// e^x for x <= 0 within 1.25 ulp; results below the smallest normal number are zero, NaN stays
/// NaN.
__device__ inline float exp_nonpositive(float x) {
  // x = k ln 2 + r with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to an integer in the low bits.
  constexpr float kMagic = 0x1.8p23f;
  const float shifted = fmaf(x, 0x1.715476p0f, kMagic);
  const float k = shifted - kMagic;
  float r = fmaf(k, -0x1.62e4p-1f, x);  // ln 2 in two parts, the first with 15 bits
  r = fmaf(k, -0x1.7f7d1cp-20f, r);
  const float p = horner(r,
                         1.3926183587713494e-3f,
                         8.363179052722578e-3f,
                         4.1666554617204574e-2f,
                         1.6666576989698775e-1f,
                         0.5f);
  const float result = fmaf(r * r, p, r) + 1.0f;
  const std::uint32_t exponent =
      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kMagic)) << 23;
  const float scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) + exponent);
  // Below -87.33 the exponent would leave the normal range. The device's NaN has all bits of its
  // fraction set, which the sum above would turn into a number.
  const float bounded = x < -87.33f ? 0.0f : scaled;
  return x == x ? bounded : x;
}

/// exp(x), x <= 0, as exactly as operands stored as T deserve: for bf16 the product of x and
/// log2(e) moves the result by 2^-24 |x| of it, and ex2.approx by 2^-22.
template <typename T>
__device__ inline float exp_for(float x);
template <>
__device__ inline float exp_for<float>(float x) {
  return exp_nonpositive(x);
}
template <>
__device__ inline float exp_for<Bf16>(float x) {
  return exp2_approx(x * kLog2E);
}

/// 1 / x, likewise; |x| <= 2^126.
template <typename T>
__device__ inline float reciprocal_for(float x);
template <>
__device__ inline float reciprocal_for<float>(float x) {
  return 1.0f / x;
}
template <>
__device__ inline float reciprocal_for<Bf16>(float x) {
  return __fdividef(1.0f, x);
}

}  // namespace lockstep::cuda

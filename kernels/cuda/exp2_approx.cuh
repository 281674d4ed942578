// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

/// e^x = 2^(x log2(e)).
inline constexpr float kLog2E = 0x1.715476p0f;

/// 2^x by one instruction, within 2^-22 of it, which is two units in the last place at most (PTX
/// ISA, section on ex2.approx); results below the smallest normal number are zero, NaN stays NaN.
#ifdef __CUDACC__
__device__ inline float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
#else
inline float exp2_approx(float x) { return exp2f(x); }
#endif

}  // namespace lockstep::cuda

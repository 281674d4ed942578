// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Elementwise loops of the operators. Outputs may equal an input; pointers may be unaligned.
namespace lockstep::cpu {

/// Columns that a per-channel pattern is repeated to, so that a loop over one period is long.
inline constexpr std::int64_t kPatternWidth = 256;

/// Repetitions of a pattern of `channels` that make a period of at least kPatternWidth.
inline std::int64_t pattern_repeats(std::int64_t channels) {
  return channels >= kPatternWidth ? 1 : (kPatternWidth + channels - 1) / channels;
}

/// The random words of one dropout call: see ops::Dropout.
struct DropoutStream {
  std::uint64_t key = 0;
  std::uint64_t step = 0;
  std::uint64_t first_sample = 0;
  std::uint32_t threshold = 0;  ///< words below it are dropped
  float scale = 1.0f;           ///< of what is kept
};

/// y = min(max(x, 0), limit), NaN stays NaN.
LOCKSTEP_STORED_LOOP(void, relu, (T * y, const T* x, std::int64_t elems));
LOCKSTEP_STORED_LOOP(void, relu_limited, (T * y, const T* x, std::int64_t elems, float limit));
/// dx = 0 < y <= largest ? dy : 0; see ops::largest_open().
LOCKSTEP_STORED_LOOP(void,
                     relu_bwd,
                     (T * dx, const T* dy, const T* y, std::int64_t elems, float largest));
/// out = a + b
LOCKSTEP_STORED_LOOP(void, add, (T * out, const T* a, const T* b, std::int64_t elems));
/// out += a + b
LOCKSTEP_LOOP(void, add_onto, (float* out, const float* a, const float* b, std::int64_t elems));
/// y = factor * x
LOCKSTEP_STORED_LOOP(void, scale, (T * y, const T* x, float factor, std::int64_t elems));
/// Formulas: ops::Gelu. In fp32 the erf form is within 6 ulp where the result is a normal number;
/// the tanh form is within 4 * 2^-24 |x|.
LOCKSTEP_STORED_LOOP(void, gelu_erf, (T * y, const T* x, std::int64_t elems));
LOCKSTEP_STORED_LOOP(void, gelu_tanh, (T * y, const T* x, std::int64_t elems));
/// dx = dy * gelu'(x), the derivative within 8 * 2^-24.
LOCKSTEP_STORED_LOOP(void, gelu_erf_bwd, (T * dx, const T* dy, const T* x, std::int64_t elems));
LOCKSTEP_STORED_LOOP(void, gelu_tanh_bwd, (T * dx, const T* dy, const T* x, std::int64_t elems));
/// Formulas: ops::Swiglu, ops::SwigluBwd. dgate may equal gate, dup may equal up.
LOCKSTEP_STORED_LOOP(void, swiglu, (T * y, const T* gate, const T* up, std::int64_t elems));
LOCKSTEP_STORED_LOOP(
    void,
    swiglu_bwd,
    (T * dgate, T* dup, const T* dy, const T* gate, const T* up, std::int64_t elems));
/// y[i] = x[i] * scale[i % period] + shift[i % period], one rounding to fp32.
LOCKSTEP_STORED_LOOP(void,
                     affine,
                     (T * y,
                      const T* x,
                      std::int64_t elems,
                      const float* scale,
                      const float* shift,
                      std::int64_t period));
/// y = min(max(0, affine(x)), limit), and y = max(0, affine(x) + r).
LOCKSTEP_STORED_LOOP(void,
                     affine_relu,
                     (T * y,
                      const T* x,
                      std::int64_t elems,
                      const float* scale,
                      const float* shift,
                      std::int64_t period,
                      float limit));
LOCKSTEP_STORED_LOOP(void,
                     affine_add_relu,
                     (T * y,
                      const T* x,
                      const T* r,
                      std::int64_t elems,
                      const float* scale,
                      const float* shift,
                      std::int64_t period));
LOCKSTEP_STORED_LOOP(void,
                     affine_f32,
                     (T * y,
                      const float* x,
                      std::int64_t elems,
                      const float* scale,
                      const float* shift,
                      std::int64_t period));
LOCKSTEP_STORED_LOOP(void,
                     affine_u8,
                     (T * y,
                      const std::uint8_t* x,
                      std::int64_t elems,
                      const float* scale,
                      const float* shift,
                      std::int64_t period));
LOCKSTEP_STORED_LOOP(void,
                     dropout,
                     (T * y,
                      const T* x,
                      std::int64_t samples,
                      std::int64_t sample_elems,
                      const DropoutStream& stream));
LOCKSTEP_LOOP(void, round_to_bf16, (Bf16 * y, const float* x, std::int64_t elems));
LOCKSTEP_LOOP(void, widen_to_f32, (float* y, const Bf16* x, std::int64_t elems));
/// y = x rounded to bf16, as fp32.
LOCKSTEP_LOOP(void, round_to_f32, (float* y, const float* x, std::int64_t elems));

}  // namespace lockstep::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

/// y = max(x, 0), NaN stays NaN.
LOCKSTEP_LOOP(void, relu, (float* y, const float* x, std::int64_t elems));
/// dx = y > 0 ? dy : 0
LOCKSTEP_LOOP(void, relu_bwd, (float* dx, const float* dy, const float* y, std::int64_t elems));
/// out += a + b
LOCKSTEP_LOOP(void, add_onto, (float* out, const float* a, const float* b, std::int64_t elems));
/// y = factor * x
LOCKSTEP_LOOP(void, scale, (float* y, const float* x, float factor, std::int64_t elems));
/// Rounded to nearest even; NaN stays NaN.
LOCKSTEP_LOOP(void, cast_to_bf16, (std::uint16_t * y, const float* x, std::int64_t elems));
LOCKSTEP_LOOP(void, cast_to_f32, (float* y, const std::uint16_t* x, std::int64_t elems));
/// Formulas: ops::Gelu. The erf form is within 6 ulp where the result is a normal number; the tanh
/// form is within 4 * 2^-24 |x|.
LOCKSTEP_LOOP(void, gelu_erf, (float* y, const float* x, std::int64_t elems));
LOCKSTEP_LOOP(void, gelu_tanh, (float* y, const float* x, std::int64_t elems));
/// dx = dy * gelu'(x), the derivative within 8 * 2^-24.
LOCKSTEP_LOOP(void, gelu_erf_bwd, (float* dx, const float* dy, const float* x, std::int64_t elems));
LOCKSTEP_LOOP(void,
              gelu_tanh_bwd,
              (float* dx, const float* dy, const float* x, std::int64_t elems));
/// y[i] = x[i] * scale[i % period] + shift[i % period], one rounding.
LOCKSTEP_LOOP(void,
              affine,
              (float* y,
               const float* x,
               std::int64_t elems,
               const float* scale,
               const float* shift,
               std::int64_t period));
LOCKSTEP_LOOP(void,
              affine_u8,
              (float* y,
               const std::uint8_t* x,
               std::int64_t elems,
               const float* scale,
               const float* shift,
               std::int64_t period));
LOCKSTEP_LOOP(void,
              dropout,
              (float* y,
               const float* x,
               std::int64_t samples,
               std::int64_t sample_elems,
               const DropoutStream& stream));

}  // namespace lockstep::cpu

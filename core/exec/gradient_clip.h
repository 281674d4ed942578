// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/exec/unit_range.h"

namespace lockstep {

struct StepOutcome;

/// Clips each unit's gradient to `factor` times the norm of its weights (Brock et al. 2021,
/// "High-Performance Large-Scale Image Recognition Without Normalization", equation 3):
///   gradient *= unit_factor(|weights|, grad_scale |gradient|, factor)
/// L2 norms; UnitRange says how they are summed.
struct UnitClip {
  float* gradients = nullptr;
  const float* weights = nullptr;
  float factor = 0;
  /// By UnitRange::norm; null: none is given.
  const double *weight_norms = nullptr, *gradient_norms = nullptr;
  const StepOutcome* outcome = nullptr;  ///< in device memory: its grad_scale; null: 1
};

/// What weights' norms are at least, so that a zero tensor can leave zero: Brock et al. 2021.
inline constexpr double kMinUnitNorm = 1e-3;

// One text for all devices (they may be called on a GPU), so that their bits are equal.

/// min(1, factor max(weight_norm, kMinUnitNorm) / gradient_norm)
constexpr float unit_factor(double weight_norm, double gradient_norm, float factor) {
  const double limit = double(factor) * (weight_norm > kMinUnitNorm ? weight_norm : kMinUnitNorm);
  return gradient_norm > limit ? float(limit / gradient_norm) : 1.0f;
}

/// The largest absolute value of a gradient that becomes at most `limit` times `grad_scale`.
constexpr float unscaled_limit(float limit, float grad_scale) {
  return float(double(limit) / double(grad_scale));
}

/// `value` in [-limit, limit]; NaN stays.
constexpr float clipped_value(float value, float limit) {
  return value > limit ? limit : value < -limit ? -limit : value;
}

}  // namespace lockstep

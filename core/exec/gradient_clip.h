// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

struct StepOutcome;

/// Units of one tensor: each the gradients, and the weights, of one output. A matrix has a unit a
/// row, a convolution one a filter; a vector is one unit. Offsets and counts in elements.
struct UnitRange {
  std::int64_t offset = 0;  ///< of the tensor
  std::int64_t unit = 0;    ///< elements of a unit
  std::int64_t first = 0;   ///< unit
  std::int64_t elems = 1;   ///< units
  /// Index of the gradient's squared norm where it is given: then this is one unit, of which the
  /// elements from `own` on, `own_elems` of them, are clipped. -1: all of each unit, whose norm
  /// follows from its gradients.
  std::int32_t norm = -1;
  std::int64_t own = 0, own_elems = 0;
};

/// Clips each unit's gradient to `factor` times the norm of its weights (Brock et al. 2021,
/// "High-Performance Large-Scale Image Recognition Without Normalization", equation 3):
///   gradient *= unit_factor(|weights|, grad_scale |gradient|, factor)
/// L2 norms. A squared norm is that of pieces, which end where blocks of kNormBlock elements of the
/// tensor do: each as Backend::squared_norms() has it, added in order, in fp64.
struct UnitClip {
  float* gradients = nullptr;
  const float* weights = nullptr;
  float factor = 0;
  const double* norms = nullptr;         ///< by UnitRange::norm; null: none is given
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

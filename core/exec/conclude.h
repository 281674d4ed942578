// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/exec/backend.h"

namespace lockstep {

/// Neither infinite nor NaN.
constexpr bool is_finite(double value) { return value - value == 0; }

/// What `sums` come to; `norm`: the root of the tensors' added squared norms. One text for all
/// devices (it may be called on a GPU), so that their bits are equal.
constexpr StepOutcome outcome_of(const StepSums& sums, double norm) {
  StepOutcome outcome;
  const float* const values = sums.gradients;
  // The sums weigh every row by one over all rows, ignored ones as zeros; means are over those that
  // count.
  if (sums.counted >= 0) outcome.counted = double(values[sums.counted]);
  outcome.loss = double(values[sums.loss]) / outcome.counted;
  if (sums.correct >= 0) outcome.correct = double(values[sums.correct]) / outcome.counted;
  outcome.grad_norm = norm / outcome.counted;
  float clip = 1.0f;
  if (sums.clip_norm > 0) {
    const double factor = double(sums.clip_norm) / (outcome.grad_norm + 1e-6);
    if (factor < 1.0) clip = float(factor);
  }
  outcome.grad_scale = float(double(clip) / outcome.counted);
  if (!is_finite(outcome.loss) || !is_finite(outcome.grad_norm))
    outcome.bad |= StepOutcome::kNotFinite;
  if (!(outcome.counted > 0)) outcome.bad |= StepOutcome::kNothingCounted;
  if (sums.previous != nullptr && sums.previous->bad != 0) outcome.bad |= StepOutcome::kAfterBad;
  return outcome;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/step_result.h"

#include <cmath>

#include "core/base/check.h"

namespace lockstep {

void require_finite(const StepResult& result) {
  if (!result.bad) return;
  LOCKSTEP_CHECK(result.counted > 0,
                 DataError,
                 "training: all labels of step {} ({} samples) are to be ignored",
                 result.step + 1,
                 result.samples);
  LOCKSTEP_CHECK(std::isfinite(result.loss),
                 NonFiniteError,
                 "training: the loss of step {} ({} samples) is {}",
                 result.step + 1,
                 result.samples,
                 result.loss);
  LOCKSTEP_CHECK(std::isfinite(result.grad_norm),
                 NonFiniteError,
                 "training: the gradient norm of step {} is {}",
                 result.step + 1,
                 result.grad_norm);
  throw NonFiniteError(fmt::format(
      "training: step {} was skipped, since a step before it was not finite", result.step + 1));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// The result of a training step or an evaluation. Equal on all ranks.
struct StepResult {
  double loss = 0;           ///< mean over the global batch, over the labels that count
  double counted = 1;        ///< share of labels that are not ignored
  double accuracy = -1;      ///< share of correct answers; negative for a regression
  double grad_norm = -1;     ///< before clipping; negative: an evaluation has none
  std::int64_t step = -1;    ///< index of the training step, from 0; -1: none
  std::int64_t samples = 0;  ///< of its global batch
  bool bad = false;          ///< its update was skipped: loss or gradients were not finite, or no
                             ///< label counts
  bool after_bad = false;    ///< bad, because nothing is updated after a bad step
};

/// Throws where the step's update was skipped, naming the step and the value; for a training loop
/// of your own that stops at the first bad step. DataError: all labels are to be ignored.
/// NonFiniteError: loss or gradient norm is not finite.
void require_finite(const StepResult& result);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/io/checkpoint/checkpoint_state.h"

namespace lockstep {

/// Ends a run whose validation loss (by BestBy, its accuracy with a minus) has not fallen for some
/// validations in a row (TrainOptions::early_stop; Keras's EarlyStopping with patience). All ranks
/// see the same losses, so that they come to the same end. A resumed run counts on.
class EarlyStop {
 public:
  EarlyStop() = default;
  /// `patience`: validations; 0: never.
  EarlyStop(std::int64_t patience, const io::CheckpointState* resumed) : patience_(patience) {
    if (resumed == nullptr) return;
    lowest_ = resumed->lowest_val_loss;
    step_ = resumed->lowest_val_step;
    since_ = resumed->validations_since_lowest;
  }

  /// A loss that is not a number does not count as lower.
  void after_validation(std::int64_t step, double loss) {
    if (patience_ == 0) return;
    ++since_;
    if (step_ >= 0 && !(loss < lowest_)) return;
    if (std::isnan(loss)) return;
    lowest_ = loss;
    step_ = step;
    since_ = 0;
  }
  bool is_due() const { return patience_ > 0 && since_ >= patience_; }
  /// The steps done at the lowest loss; -1: there was none.
  std::int64_t lowest_step() const { return step_; }

  void save(io::CheckpointState& state) const {
    if (patience_ == 0) return;
    state.lowest_val_loss = lowest_;
    state.lowest_val_step = step_;
    state.validations_since_lowest = since_;
  }

 private:
  std::int64_t patience_ = 0, step_ = -1, since_ = 0;
  double lowest_ = 0;
};

}  // namespace lockstep

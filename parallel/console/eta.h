// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/train_records.h"

namespace lockstep {

/// Estimates how long a run still takes: its steps at the mean of the last records, and the
/// validations that are left at the mean of those that were, in the rhythm that the last ones have
/// shown.
class Eta {
 public:
  /// The run begins after `step`, or has gone back to it.
  void resume_from(std::int64_t step) { step_ = evaluated_at_ = step; }
  void on_step(const StepRecord& record);
  void on_evaluation(const EvaluationRecord& record);
  /// 0 before the first record.
  double seconds() const;

 private:
  double evaluations_left() const;

  struct Interval {
    double steps = 0, seconds = 0;
  };
  std::array<Interval, 8> recent_{};
  std::size_t next_ = 0;
  std::int64_t step_ = 0, steps_ = 0;           // of the last record
  std::int64_t evaluated_at_ = 0, rhythm_ = 0;  // rhythm_: steps; 0: there was no validation yet
  double evaluations_ = 0, evaluation_seconds_ = 0;
};

}  // namespace lockstep

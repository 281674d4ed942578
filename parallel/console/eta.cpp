// SPDX-License-Identifier: Apache-2.0
#include "parallel/console/eta.h"

#include <algorithm>

namespace lockstep {

void Eta::on_step(const StepRecord& record) {
  const double steps = double(std::max<std::int64_t>(1, record.step - step_));
  recent_[next_++ % recent_.size()] = {steps, steps * record.step_ms.total / 1000};
  step_ = record.step;
  steps_ = record.steps;
}

void Eta::on_evaluation(const EvaluationRecord& record) {
  if (record.step > evaluated_at_) rhythm_ = record.step - evaluated_at_;
  evaluated_at_ = record.step;
  evaluations_ += 1;
  evaluation_seconds_ += record.seconds;
}

/// With the one at the end of the run, whatever the rhythm.
double Eta::evaluations_left() const {
  if (rhythm_ == 0) return 0;
  const std::int64_t steps = std::max<std::int64_t>(0, steps_ - evaluated_at_);
  const std::int64_t evaluations = (steps + rhythm_ - 1) / rhythm_;
  return double(evaluations);
}

double Eta::seconds() const {
  Interval sum;
  for (const Interval& interval : recent_) {
    sum.steps += interval.steps;
    sum.seconds += interval.seconds;
  }
  if (sum.steps == 0) return 0;
  const double training = double(steps_ - step_) * sum.seconds / sum.steps;
  if (evaluations_ == 0) return training;
  return training + evaluations_left() * evaluation_seconds_ / evaluations_;
}

}  // namespace lockstep

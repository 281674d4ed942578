// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "core/data/loader.h"
#include "parallel/replica.h"
#include "parallel/train_records.h"
#include "parallel/training_feed.h"

namespace lockstep {

/// Measures training time, without evaluations, and makes the records of logged steps: means over
/// the steps since the record before. On every rank.
class StepLog {
 public:
  /// `wall_s`: of earlier processes of the same run.
  StepLog(const Replica& replica,
          const TrainingFeed& feed,
          const data::Loader& loader,
          std::int64_t first_step,
          double wall_s);

  /// Step number `step` (from 0) is done; `lr`, `result` are its own. Fills all but `steps`.
  StepRecord record(std::int64_t step, float lr, const StepResult& result, int ranks);
  /// Goes on behind step `step` (from 0: so many are done) with a new loader: a rollback.
  void restart(std::int64_t step);
  /// Between these, time is not training's.
  void pause();
  void go_on();

  /// Seconds of training: of this process, and of all processes of the run.
  double process_seconds() const;
  double wall_seconds() const { return earlier_ + process_seconds(); }

 private:
  using Clock = std::chrono::steady_clock;

  const Replica& replica_;
  const TrainingFeed& feed_;
  const data::Loader& loader_;
  double earlier_, done_ = 0;   // done_: intervals that are closed
  double paused_interval_ = 0;  // of the open interval, before the last pause
  bool running_ = true;
  std::int64_t step_;
  Clock::time_point begin_ = Clock::now();
  StepTimes times_;
  double waited_;
};

}  // namespace lockstep

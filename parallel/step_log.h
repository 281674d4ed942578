// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "core/data/loader.h"
#include "parallel/ledger.h"
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
  /// Where this process's seconds of training went.
  Ledger ledger() const;

  /// Training stands still for `part`, from construction to destruction. Not while paused.
  class Stall {
   public:
    Stall(StepLog& log, LedgerPart part) : log_(log), part_(part) {}
    ~Stall() {
      log_.stalls_[part_] += std::chrono::duration<double>(Clock::now() - begin_).count();
    }
    Stall(const Stall&) = delete;
    Stall& operator=(const Stall&) = delete;

   private:
    StepLog& log_;
    LedgerPart part_;
    std::chrono::steady_clock::time_point begin_ = Clock::now();
  };

 private:
  using Clock = std::chrono::steady_clock;

  const Replica& replica_;
  const TrainingFeed& feed_;
  const data::Loader& loader_;
  double earlier_, before_pause_ = 0;
  bool running_ = true;
  Clock::time_point begin_ = Clock::now();
  Ledger stalls_;
  const StepTimes start_;
  std::int64_t step_;  // with which the open interval begins
  Ledger interval_begin_;
};

}  // namespace lockstep

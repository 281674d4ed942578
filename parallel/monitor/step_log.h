// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "core/host/monotonic_clock.h"
#include "lockstep/data/loader.h"
#include "lockstep/step_result.h"
#include "lockstep/time_breakdown.h"
#include "lockstep/train_records.h"
#include "lockstep/training_feed.h"
#include "parallel/monitor/run_queue.h"
#include "parallel/monitor/step_spread.h"
#include "parallel/replica/step_times.h"

namespace lockstep {

class ReplicaState;

/// Loss and accuracy of several steps: means over the labels that count, so that a short batch
/// weighs less.
struct LossMeter {
  double labels = 0;              ///< of all of them
  double loss = 0, accuracy = 0;  ///< means

  void add(const StepResult& result) {
    const double added = result.counted * double(result.samples);
    labels += added;
    const double share = added / labels;  // 1 of the first, whose loss stays what it is
    loss += (result.loss - loss) * share;
    accuracy += (result.accuracy - accuracy) * share;
  }
};

/// Measures training time, without evaluations, and makes the records of logged steps: means over
/// the steps since the record before. On every rank.
class StepLog {
 public:
  /// `wall_s`: of earlier processes of the same run; `meter`: what it was after `first_step`.
  StepLog(const ReplicaState& replica,
          const TrainingFeed& feed,
          const data::Loader& loader,
          std::int64_t first_step,
          double wall_s,
          const LossMeter& meter);

  /// The result of a good step, which the next record is a mean of. In the order of steps.
  void add(const StepResult& result) { meter_.add(result); }
  const LossMeter& meter() const { return meter_; }
  /// Step number `step` (from 0) is done; `lr`, `result` are its own, and every step up to it has
  /// been added. Fills all but `steps`.
  StepRecord record(std::int64_t step, float lr, const StepResult& result, int ranks);
  /// Another step is done, and what belongs to it.
  void step_done();
  /// Of the times of steps, as step_done() saw them.
  const StepSpread& spread() const { return spread_; }

  /// Resumes after step `step` (from 0: so many are done) with a new loader: a rollback. `meter`
  /// is what it was there. What passed since the last step_done() (the step that spiked, and the
  /// rollback) is training time, but no step's: it is in neither the next record nor spread().
  void restart(std::int64_t step, const LossMeter& meter);
  /// Between these, time is not training's.
  void pause();
  void resume();

  /// Seconds of training: of this process, and of all processes of the run.
  double process_seconds() const;
  double wall_seconds() const { return earlier_ + process_seconds(); }
  /// Where this process's seconds of training went.
  TimeBreakdown breakdown() const;
  /// Of those, run_queue_wait() of this thread; nothing where it is unknown.
  std::optional<double> queued_seconds() const;

  /// Training stalls for `part`, from construction to destruction. Not while paused.
  class Stall {
   public:
    Stall(StepLog& log, TimePart part) : log_(log), part_(part) {}
    ~Stall() {
      log_.stalls_[part_] += std::chrono::duration<double>(Clock::now() - begin_).count();
    }
    Stall(const Stall&) = delete;
    Stall& operator=(const Stall&) = delete;

   private:
    StepLog& log_;
    TimePart part_;
    MonotonicClock::time_point begin_ = Clock::now();
  };

 private:
  using Clock = MonotonicClock;

  const ReplicaState& replica_;
  const TrainingFeed& feed_;
  const data::Loader& loader_;
  double earlier_, before_pause_ = 0;
  bool running_ = true;
  Clock::time_point begin_ = Clock::now();
  TimeBreakdown stalls_;
  const StepTimes start_;
  std::int64_t step_;  // with which the open interval begins
  TimeBreakdown interval_begin_;
  StepSpread spread_;
  double last_step_ = 0;  // process_seconds() when it was done
  double queued_before_pause_ = 0;
  std::optional<double> queue_begin_ = run_queue_wait();
  LossMeter meter_;  // of the open interval
};

}  // namespace lockstep

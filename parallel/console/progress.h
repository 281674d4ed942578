// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/console/console.h"
#include "parallel/console/eta.h"
#include "parallel/monitor/train_records.h"

namespace lockstep {

/// "step 120/940  epoch 0.51  loss 0.1234  acc 96.5%  lr 0.100  12,345 samples/s  21 ms"
std::string step_line(const StepRecord& record);
/// "validation at step 940 (epoch 4): loss 0.0312  acc 99.02%  (1.2 s)"
std::string evaluation_line(const EvaluationRecord& record);

/// "[rank 3 node7] warning: rank 3 is slower than the others: score 1.8 in loading (42.0 ms a
/// micro-batch, median 12.0 ms)"
std::string slow_rank_line(const SlowRankRecord& record);

/// What is known of a run before it begins; 0: not known.
struct ProgressContext {
  double flops_per_step = 0;        ///< of all ranks
  double peak_flops = 0;            ///< a second, of all ranks' devices, for this run's precision
  std::uint64_t planned_bytes = 0;  ///< of rank 0, with the program itself
};

/// What follows the bar, the most wanted first: "2m 03s left", "loss 0.1234",
/// "12,345 samples/s", "310 GFLOP/s, 61% of peak", "1.21 GiB of 1.40 GiB". `memory_bytes`: that
/// rank 0 holds now; 0: not known.
std::vector<std::string> live_parts(const StepRecord& record,
                                    const ProgressContext& facts,
                                    double seconds_left,
                                    std::uint64_t memory_bytes);

/// step_line() with GFLOP/s and the time left after it, where they fit into a line.
std::string plain_line(const StepRecord& record, const ProgressContext& facts, double seconds_left);

/// Tells people how a run goes. Epochs of a small table take microseconds: evaluation lines come at
/// most once a second, while metrics.jsonl has them all and the end says the last. The end of a run
/// of a few seconds is its result alone; time and memory are in the log, as for any run.
class Progress : public TrainObserver {
 public:
  explicit Progress(Console& console) : console_(console) {}
  void set_facts(const ProgressContext& facts) { facts_ = facts; }
  void on_start(const ResumeRecord* resumed) override;
  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_checkpoint(const CheckpointRecord& record) override;
  void on_slow_rank(const SlowRankRecord& record) override;
  void on_skip(const SkipRecord& record) override;
  void on_rollback(const RollbackRecord& record) override;
  void on_end(const TrainSummary& summary) override;

 protected:
  /// What else is to be said at the end of a run, after time and memory. Nothing, unless a derived
  /// class knows more.
  virtual std::vector<std::string> closing_lines(const TrainSummary& summary) const;

 private:
  std::uint64_t memory_bytes();

  Console& console_;
  ProgressContext facts_;
  Eta left_;
  std::uint64_t memory_bytes_ = 0;
  std::chrono::steady_clock::time_point next_look_at_memory_{};
  std::chrono::steady_clock::time_point next_evaluation_line_{};
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "launcher/console.h"
#include "parallel/train_records.h"

namespace lockstep {

/// "step 120/940  epoch 0.51  loss 0.1234  acc 96.5%  lr 0.100  12,345 samples/s  21 ms"
std::string step_line(const StepRecord& record);
/// "validation at step 940 (epoch 4): loss 0.0312  acc 99.02%  (1.2 s)"
std::string evaluation_line(const EvaluationRecord& record);

/// "[rank 3 node7] warning: rank 3 is slower than the others: score 1.8 in loading (42.0 ms a
/// micro-batch, median 12.0 ms)"
std::string slow_rank_line(const SlowRankRecord& record);

/// Tells people how a run goes. Epochs of a small table take microseconds: evaluation lines come at
/// most once a second, while metrics.jsonl has them all and the end says the last.
class Progress final : public TrainObserver {
 public:
  explicit Progress(Console& console) : console_(console) {}
  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_checkpoint(const CheckpointRecord& record) override;
  void on_slow_rank(const SlowRankRecord& record) override;
  void on_skip(const SkipRecord& record) override;
  void on_rollback(const RollbackRecord& record) override;
  void on_end(const TrainSummary& summary) override;

 private:
  Console& console_;
  std::chrono::steady_clock::time_point next_evaluation_line_{};
};

}  // namespace lockstep

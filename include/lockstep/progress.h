// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/console.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// What is known of a run before it begins, for its progress to say more; 0: not known.
struct ProgressContext {
  double flops_per_step = 0;        ///< of all ranks
  double peak_flops = 0;            ///< a second, of all ranks' devices, for this run's precision
  std::uint64_t planned_bytes = 0;  ///< of rank 0, with the program itself
};

/// Tells people how a run goes: steps with loss, accuracy and speed, validations, checkpoints, and
/// the result.
///
///   lockstep::Console console(lockstep::console_kind());
///   lockstep::Progress progress(console);
///   trainer.add_observer(progress);
///
/// Epochs of a small table take microseconds: evaluation lines come at most once a second, and the
/// end says the last. The end of a run of a few seconds is its result alone; time and memory are in
/// the console's copy, as for any run.
class Progress : public TrainObserver {
 public:
  /// `console` must outlive it.
  explicit Progress(Console& console);
  ~Progress() override;
  void set_facts(const ProgressContext& facts);
  void on_start(const ResumeRecord* resumed) override;
  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_checkpoint(const CheckpointRecord& record) override;
  void on_single_writer(const std::string& why, std::uint64_t bytes) override;
  void on_slow_rank(const SlowRankRecord& record) override;
  void on_skip(const SkipRecord& record) override;
  void on_rollback(const RollbackRecord& record) override;
  void on_end(const TrainSummary& summary) override;

 protected:
  /// What else is to be said at the end of a run, after time and memory. Nothing, unless a derived
  /// class knows more.
  virtual std::vector<std::string> closing_lines(const TrainSummary& summary) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/step/stage_scope.h"
#include "lockstep/data/sources.h"
#include "lockstep/rank_context.h"
#include "lockstep/replica.h"
#include "lockstep/train_records.h"
#include "lockstep/training_feed.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/monitor/noise_watch.h"
#include "parallel/monitor/run_advice.h"
#include "parallel/monitor/spike_watch.h"
#include "parallel/monitor/step_log.h"
#include "parallel/monitor/straggler_watch.h"
#include "parallel/replica/memory_table.h"
#include "parallel/replica/nonfinite_locator.h"
#include "parallel/replica/replica_check.h"
#include "parallel/replica/replica_state.h"
#include "parallel/training/checkpointing.h"
#include "parallel/training/early_stop.h"
#include "parallel/training/evaluation.h"
#include "parallel/training/resume.h"

namespace lockstep {

/// Of the steps between the last logged one and a checkpoint.
inline LossMeter open_meter(const io::CheckpointState& state) {
  return {state.open_labels, state.open_loss, state.open_accuracy};
}

/// What a training run goes through once ranks have agreed on everything: steps, validations,
/// checkpoints, a stop before the end, and what is reported of it to observers (on rank 0).
class TrainingRun {
 public:
  /// All of it must outlive the run. `start`: null where it begins with step 1.
  struct Parts {
    RankContext& context;
    Replica& replica;
    const TrainOptions& options;
    const data::DataSplit& data;
    const LrSchedule& schedule;  ///< with its decay_steps
    std::int64_t steps = 0;      ///< of the whole run
    const Fingerprint& settings;
    const ResumePoint* start = nullptr;
    const std::vector<TrainObserver*>& observers;
  };

  /// Reserves what it needs: loader, snapshots. Collective.
  explicit TrainingRun(const Parts& parts);
  /// With OnNonfinite::skip, a step that is not finite leaves no trace: weights, running statistics
  /// and optimizer state stay, while the step number, by which learning rate, AdamW's bias
  /// correction and checkpoints go, moves on. More than kMaxSkippedInARow end the run, as does the
  /// rollback after kMaxRollbacks to one checkpoint (NonFiniteError).
  TrainSummary run();

  static constexpr int kMaxSkippedInARow = 20, kMaxRollbacks = 5, kMaxReplays = 3;

 private:
  TrainingFeed make_feed() const;
  void make_loader(std::int64_t first_step);
  data::LoaderOptions loader_options() const;
  void take_over(const io::CheckpointState& state);
  void take_over_start();
  void tell_start();
  /// Calls `call` with each observer: in RunStage::saving, as files and consoles may be slow.
  template <typename Call>
  void tell(const Call& call) {
    if (p_.observers.empty()) return;
    const StageScope stage(&p_.context.position(), RunStage::saving);
    const StepLog::Stall stall(*log_, TimePart::logging);
    ++told_;
    for (TrainObserver* observer : p_.observers) call(*observer);
  }
  void train_one_step();
  void take(std::span<const StepResult> results);
  bool evaluates_now() const;
  void evaluate();
  double judged() const;
  void collect_skipped();
  void save_when_due();
  void make_checkpointing();
  std::optional<io::CheckpointState> state() const;

  // training_run_end.cpp
  void finish();
  void count_skipped();
  void tell_noise_scale();
  RunFacts facts() const;
  bool is_on_host() const;
  MemoryTable memory_table() const;
  void save_at_end();

  // training_run_faults.cpp
  void take_bad(const StepResult& result);
  std::string replay(const StepResult& result, std::optional<NonFiniteFinding>& first);
  void roll_back();
  std::int64_t rollback_base(std::int64_t steps) const;
  ResumePoint point_to_go_back_to(const StepResult& spike);
  bool add_faults(io::CheckpointState& state, const StepResult& newest) const;

  Parts p_;
  ReplicaState& inside_;  // of p_.replica
  TrainingFeed feed_;
  TrainingRequests requests_;
  ReplicaCheck replica_check_;
  StragglerWatch straggler_watch_;
  NoiseWatch noise_watch_;
  std::optional<data::Loader> loader_;
  std::optional<Evaluation> evaluation_;        // where there is validation data
  std::optional<Checkpointing> checkpointing_;  // where there is a folder
  std::optional<StopAgreement> agreement_;
  std::optional<StepLog> log_;
  const Checkpointing::StateFunction state_ = [this] { return state(); };
  TrainSummary summary_;
  std::set<std::int64_t> skipped_;  // training samples that this rank's loaders skipped
  StepResult last_;                 // of the newest step that is known, and good
  std::int64_t known_ = -1;         // the newest step that is known
  std::int64_t skipped_in_row_ = 0;
  int replays_ = 0;
  EarlyStop early_stop_;
  std::optional<SpikeWatch> watch_;                    // with OnSpike::rollback
  std::optional<StepResult> spike_;                    // that waits for roll_back()
  std::int64_t started_from_ = 0, base_of_start_ = 0;  // its step and rollback_base()
  std::int64_t rolled_back_to_ = -1;
  int rollbacks_there_ = 0;
  std::int64_t done_ = 0;  // steps
  std::int64_t told_ = 0;  // records of this process
  bool told_first_step_ = false;
};

}  // namespace lockstep

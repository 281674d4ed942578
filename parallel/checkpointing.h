// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include "core/io/checkpoint_writer.h"
#include "parallel/snapshot.h"
#include "parallel/train_options.h"
#include "parallel/train_records.h"

namespace lockstep {

/// Saves a run's checkpoints, on rank 0 alone and without the other ranks' knowledge: replicas are
/// equal. Training stands still for the copy into the snapshot; files are written behind it. What
/// is due while the save before is still under way is saved when that has ended.
class Checkpointing {
 public:
  /// What a checkpoint says beside tensors; best_val_loss and best_step are filled in here.
  using StateFunction = std::function<io::CheckpointState()>;

  /// Reserves the snapshot. `resumed`: what the run goes on from; step 0: from the start.
  /// Observers must outlive it.
  Checkpointing(const CheckpointOptions& options,
                const SavedArrays& saved,
                const io::CheckpointState& resumed,
                std::vector<TrainObserver*> observers);
  /// Finishes a save that is under way.
  ~Checkpointing();

  /// After each step, and after the validation that follows it: saves where that is due, or where
  /// `val_loss` (NaN: there was no validation) is the lowest so far.
  void after_step(std::int64_t step, double val_loss, const StateFunction& state);
  /// Saves the state as it is, unless that has been done, and waits until it is whole. False where
  /// that failed, of which the observers know.
  bool save_now(std::int64_t step, const StateFunction& state);
  /// At the end of a run that saves periodically: the same.
  bool save_last(std::int64_t step, const StateFunction& state);

  std::int64_t saves() const { return saves_; }
  double longest_stall_ms() const { return longest_stall_ms_; }
  double stall_seconds() const { return stall_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool periodic() const;
  bool due(std::int64_t step);
  void save(std::int64_t step, const StateFunction& state);
  void tell_results();

  CheckpointOptions options_;
  Snapshot snapshot_;
  std::vector<TrainObserver*> observers_;
  io::CheckpointWriter writer_;
  std::map<std::int64_t, double> stall_ms_;  // of saves whose result has not been told
  double best_val_loss_;
  std::int64_t best_step_;
  std::int64_t saved_step_ = -1, whole_step_ = -1;  // newest that was handed over, that is whole
  Clock::time_point last_save_ = Clock::now();
  bool due_ = false, writing_ = false;
  std::int64_t saves_ = 0;
  double longest_stall_ms_ = 0, stall_seconds_ = 0;
};

}  // namespace lockstep

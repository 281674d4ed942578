// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/io/checkpoint_writer.h"
#include "core/step/snapshot.h"
#include "lockstep/train_options.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// Saves a run's checkpoints, on rank 0 alone and without the other ranks' knowledge: replicas are
/// equal. (Where the optimizer is sharded they send what they own: before_copies().) Training
/// stalls for the copy into a snapshot; files are written concurrently with training. What is due
/// while the save before is still under way is saved when that has ended. The weights of the lowest
/// validation loss, which the next step would change, go into a second snapshot meanwhile.
class Checkpointing {
 public:
  /// What a checkpoint says in addition to tensors; best_val_loss and best_step are filled in here.
  /// Nothing where this is not state to resume from: a save that is due is then put off.
  using StateFunction = std::function<std::optional<io::CheckpointState>()>;

  /// Reserves the snapshots. `resumed`: what the run resumes from; step 0: from the start.
  /// Observers must outlive it.
  Checkpointing(const CheckpointOptions& options,
                const SavedArrays& saved,
                const io::CheckpointState& resumed,
                std::vector<TrainObserver*> observers);
  /// Finishes a save that is under way.
  ~Checkpointing();

  /// After each step, and after the validation that follows it: saves where that is due, or where
  /// `val_loss` (NaN: there was no validation) is the lowest so far. Never waits for the files.
  /// Returns whether a snapshot was taken.
  bool after_step(std::int64_t step, double val_loss, const StateFunction& state);
  /// Saves the state as it is, unless that has been done, and waits until it is whole. False where
  /// that failed, of which the observers know, or there is no state.
  bool save_now(std::int64_t step, const StateFunction& state);
  /// At the end of a run that saves periodically: the same.
  bool save_last(std::int64_t step, const StateFunction& state);

  /// Waits until every save that was begun is whole or has failed, and forgets what else was due
  /// and which step is saved: before the run goes back to an earlier one.
  void resolve();
  /// From now on a save that is due waits for the one before, so that the steps that are saved do
  /// not depend on how fast files are written.
  void wait_for_previous_saves() { waits_for_previous_saves_ = true; }
  /// From now on this rank is in RunStage::saving while weights are copied, files are waited for or
  /// saves are reported to observers.
  void set_position(Position& position) { position_ = &position; }

  /// From now on `tell` is called before each copy of the weights: other ranks take part in it.
  void before_copies(std::function<void()> tell) { tell_ = std::move(tell); }
  /// From now on `check` is called after each copy of the weights: what it throws keeps them from
  /// being written.
  void check_copies(std::function<void()> check) { check_ = std::move(check); }

  /// What all snapshots take, of that many flat arrays.
  static std::size_t memory_bytes(const FlatSpace& space, std::size_t arrays) {
    return kSnapshots * Snapshot::bytes(space, arrays);
  }

  std::int64_t saves() const { return saves_; }
  double longest_stall_ms() const { return longest_stall_ms_; }
  double stall_seconds() const { return stall_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kSnapshots = 2;
  bool periodic() const;
  bool due(std::int64_t step);
  bool is_best(double val_loss) const;
  /// Copies the weights as they are into the snapshot that is not being written.
  std::optional<io::CheckpointContent> take(std::int64_t step,
                                            double val_loss,
                                            const StateFunction& state);
  void start(io::CheckpointContent content);
  void tell_results();
  void wait();

  CheckpointOptions options_;
  std::array<Snapshot, kSnapshots> snapshots_;
  int free_snapshot_ = 0;
  std::vector<TrainObserver*> observers_;
  std::function<void()> tell_, check_;
  Position* position_ = nullptr;
  io::CheckpointWriter writer_;
  std::optional<io::CheckpointContent> waiting_;  // a best one, in the snapshot that is not written
  std::map<std::int64_t, double> stall_ms_;       // of saves whose result has not been reported
  double best_val_loss_;                          // of the best one that is whole
  std::int64_t best_step_;
  double written_val_loss_ = io::CheckpointState::kUnknown;  // of a best one that is being written
  std::int64_t whole_step_ = -1;                             // the newest that is whole
  Clock::time_point last_save_ = Clock::now();
  bool due_ = false, writing_ = false, waits_for_previous_saves_ = false;
  std::int64_t saves_ = 0;
  double longest_stall_ms_ = 0, stall_seconds_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/host/monotonic_clock.h"
#include "core/io/checkpoint/checkpoint_writer.h"
#include "core/step/saved/snapshot.h"
#include "lockstep/train_options.h"
#include "lockstep/train_records.h"
#include "parallel/training/memory_snapshots.h"
#include "parallel/training/save_agreement.h"
#include "parallel/training/save_timer.h"

namespace lockstep {

/// Saves a run's checkpoints. All ranks together: each copies its part of the flat space into a
/// snapshot, for which training stalls, and writes it concurrently with training; see Note [Writing
/// together] in checkpoint_part.h. Rank 0 decides which steps are saved, and reports. Ranks meet
/// for its decision where a save may be: after steps that the options name, after validations, and
/// where a message has said that rank 0 wants one, by its clock, or since one that was due before
/// had to wait.
///
/// What is due while the save before is still under way is saved when that has ended. The weights
/// of the lowest validation loss, which the next step would change, go into a second snapshot
/// meanwhile.
///
/// Between these, rank 0 wants snapshots that are written into memory instead (MemorySnapshots): as
/// whole checkpoints, one at a time, and never in the place of one that is due on the disk. After
/// the first that fails there are none.
class Checkpointing {
 public:
  /// What a checkpoint says in addition to tensors; best_val_loss and best_step are filled in here.
  /// Nothing where this is not state to resume from: a save that is due is then put off. Called on
  /// rank 0 alone.
  using StateFunction = std::function<std::optional<io::CheckpointState>()>;

  /// Reserves the snapshots. Collective over `ranks`: rank 0 decides when to save, and all write
  /// where their `options` name the same folder. `resumed`:
  /// what the run resumes from; step 0: from the start. Observers must outlive it.
  Checkpointing(Communicator& ranks,
                const CheckpointOptions& options,
                const SavedArrays& saved,
                const io::CheckpointState& resumed,
                std::vector<TrainObserver*> observers);
  /// Finishes a save that is under way.
  ~Checkpointing();
  Checkpointing(const Checkpointing&) = delete;
  Checkpointing& operator=(const Checkpointing&) = delete;

  /// After each step, and after the validation that follows it: saves where that is due, or where
  /// `val_loss` (NaN: there was no validation) is the lowest so far. Does not wait for the files,
  /// except for some seconds for those of a save that has failed, or of a host's snapshot that
  /// its part of a checkpoint waits for, and as wait_for_previous_saves() says.
  /// Every rank calls it; returns whether a snapshot was taken.
  bool after_step(std::int64_t step, double val_loss, const StateFunction& state);
  /// Saves the state as it is, unless that has been done, and waits until it is whole. False where
  /// that failed, of which the observers know, or there is no state. Collective.
  bool save_now(std::int64_t step, const StateFunction& state);
  /// At the end of a run that saves periodically: the same. True for others.
  bool save_last(std::int64_t step, const StateFunction& state);

  /// Waits until every save that was begun is whole or has failed, and forgets what else was due
  /// and which step is saved: before the run goes back to an earlier one. Collective.
  void resolve();
  /// From now on a save that is due waits for the one before, so that the steps that are saved do
  /// not depend on how fast files are written.
  void wait_for_previous_saves() { waits_for_previous_saves_ = true; }
  /// From now on this rank is in RunStage::saving while weights are copied, files or other ranks
  /// are waited for, or saves are reported to observers.
  void set_position(Position& position) { position_ = &position; }
  /// From now on `settle` is called on all ranks before rank 0 tells of its decision: it waits for
  /// what the device has to do with other ranks, as rank 0 looks at the newest step meanwhile.
  void before_meetings(std::function<void()> settle) { settle_ = std::move(settle); }
  /// From now on `prepare` is called on all ranks before each copy of the weights; it may be
  /// collective.
  void before_copies(std::function<void()> prepare) { before_ = std::move(prepare); }
  /// From now on `check` is called after each copy of the weights: what it throws keeps them from
  /// being written.
  void check_copies(std::function<void()> check) { check_ = std::move(check); }
  /// For the StopAgreement.
  MessagePart& message() { return agreement_; }
  /// Why rank 0 writes alone although there are other ranks; empty: it does not.
  const std::string& why_one_writer() const { return agreement_.why_one(); }
  /// Why there are no snapshots in memory although the options name a folder; empty: there are, or
  /// none were wanted.
  const std::string& why_no_snapshots() const { return memory_.why_none(); }

  /// What all snapshots of `rank` of `ranks` take where all write.
  static std::size_t memory_bytes(const SavedArrays& saved, int ranks, int rank);
  /// What those of this rank take, and its copy for snapshots in the memory of several hosts.
  std::size_t memory_bytes() const { return memory_bytes_ + memory_.copy_bytes(); }

  std::int64_t saves() const { return saves_; }
  std::int64_t snapshots() const { return snapshots_taken_; }  ///< written into memory
  double longest_stall_ms() const { return longest_stall_ms_; }
  double stall_seconds() const { return stall_seconds_; }

 private:
  using Clock = MonotonicClock;
  static constexpr std::size_t kSnapshots = 2;
  static constexpr std::size_t kHostsCopy = kSnapshots;  ///< the place of memory_.copy()

  /// What rank 0 would save after a step.
  struct Wish {
    enum class What { nothing, snapshot, checkpoint } what = What::nothing;
    double best_val_loss = io::CheckpointState::kUnknown;  ///< unknown: not for being the lowest
    bool any() const { return what != What::nothing; }
  };
  /// A copy that is to be written; its number counts copies, the same on all ranks.
  struct Save {
    std::int64_t number = 0;
    std::size_t snapshot = 0;
    bool in_memory = false, is_best = false;
    io::CheckpointContent content;
  };
  /// What rank 0 says where ranks meet.
  struct Offer {
    enum class What : std::int64_t { nothing, wait, take } what = What::nothing;
    /// The newest save that it has begun to write, the newest of which it knows the end, and one
    /// that it will begin later; 0: none.
    std::int64_t started = 0, over = 0, waiting = 0;
    bool in_memory = false;        ///< what is taken
    bool memory_given_up = false;  ///< no host's snapshot is wanted any more
  };

  bool leads() const { return agreement_.leads(); }
  bool is_best(double val_loss) const;
  Wish wish_after(std::int64_t step, double val_loss);
  Offer standing() const;
  bool meet(std::int64_t step, const Wish& wish, const StateFunction& state);
  bool take(std::int64_t step,
            bool in_memory,
            double best_val_loss,
            std::optional<io::CheckpointState> state,
            std::optional<std::size_t> place,
            Clock::time_point begin);
  std::optional<std::size_t> free_snapshot(bool in_memory) const;
  bool takes_second_copy() const;
  bool is_host_snapshot(bool in_memory) const { return in_memory && memory_.by_host(); }
  bool writes_host_snapshot() const;
  void note_failure(int rank, const SaveFailure& failure);
  void add_stall(std::int64_t step, bool in_memory, Clock::time_point begin);
  void start(Save save);
  void tell_results();
  void tell_result(io::CheckpointResult&& result);
  void tell(const CheckpointRecord& record);
  void report_busy(std::int64_t step, const std::vector<int>& busy);
  /// On other ranks: forgets saves that are over on rank 0, or that it will not begin. False: the
  /// thread is still writing such a one.
  bool follow(const Offer& offer);
  void wait_together();
  void tick_where_bytes_move();

  CheckpointOptions options_;
  SaveAgreement agreement_;
  std::vector<FlatRange> parts_;  // by rank
  std::size_t memory_bytes_;
  std::array<Snapshot, kSnapshots> snapshots_;
  std::vector<TrainObserver*> observers_;
  std::function<void()> settle_, before_, check_;
  Position* position_ = nullptr;
  MemorySnapshots memory_;
  std::int64_t snapshots_taken_ = 0;
  io::CheckpointWriter writer_;
  std::optional<Save> waiting_;                                           // for the writer
  std::map<std::int64_t, std::pair<std::string, std::string>> failures_;  // of saves to be written
  std::uint64_t bytes_ = 0;   // written when ranks last told each other
  std::int64_t number_ = 0;   // of the newest copy
  std::int64_t written_ = 0;  // the save that is being written, or was last
  std::size_t written_snapshot_ = 0;
  bool writes_memory_ = false;
  bool ended_ = false;                       // on another rank: rank 0 no longer asks for that save
  std::map<std::int64_t, double> stall_ms_;  // of saves whose result has not been reported
  double best_val_loss_;                     // of the best one that is whole
  std::int64_t best_step_;
  double written_val_loss_ = io::CheckpointState::kUnknown;  // of a best one that is being written
  std::int64_t whole_step_ = -1;                             // the newest that is whole
  SaveTimer timer_{0, 0, Clock::now()};
  bool writing_ = false, waits_for_previous_saves_ = false;
  std::int64_t saves_ = 0;
  double longest_stall_ms_ = 0, stall_seconds_ = 0;  // for checkpoints
};

}  // namespace lockstep

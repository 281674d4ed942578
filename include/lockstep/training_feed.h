// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/load_request.h"
#include "lockstep/schedule.h"

namespace lockstep {

namespace data {
class Sampler;
}  // namespace data

/// Ranges of batches in ascending order, apart from each other, that no step uses.
using SkippedBatches = std::vector<io::BatchRange>;

/// Which batch, and which of its micro-batches on this rank, each step uses. An epoch of S samples
/// is ceil(S / B) batches, the last of which may be short; step s uses batch s, unless batches are
/// skipped. With `repeats` K > 1 a batch of b holds K copies of ceil(b / K) samples, the last of
/// which may lack some: all first copies, then all second ones. For a training loop of your own; a
/// Trainer has one.
class TrainingFeed {
 public:
  /// `full` and `tail` are this rank's schedules for whole and for the epoch's last short batch
  /// (equal to `full` where S divides).
  TrainingFeed(std::int64_t dataset_size,
               std::int64_t global_batch,
               std::int64_t steps,
               std::uint64_t seed,
               Schedule full,
               Schedule tail,
               SkippedBatches skipped_batches = {},
               int repeats = 1);

  std::int64_t dataset_size() const { return dataset_size_; }
  std::int64_t global_batch() const { return global_batch_; }
  std::int64_t steps() const { return steps_; }
  std::uint64_t seed() const { return seed_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int repeats() const { return repeats_; }
  /// The epoch that the step's batch is of, from 0.
  std::uint64_t epoch(std::int64_t step) const;
  /// Whether the step uses an epoch's short last batch.
  bool is_tail(std::int64_t step) const;
  /// What this rank computes in the step.
  const Schedule& schedule(std::int64_t step) const { return is_tail(step) ? tail_ : full_; }
  /// Training samples in the steps before `step`.
  std::int64_t samples_before(std::int64_t step) const;
  /// Epochs of the data that are done with `step` steps.
  double epochs_after(std::int64_t step) const;
  const SkippedBatches& skipped_batches() const { return skipped_batches_; }
  void set_skipped_batches(SkippedBatches skipped_batches) {
    skipped_batches_ = std::move(skipped_batches);
  }

 private:
  std::int64_t dataset_size_, global_batch_, steps_, steps_per_epoch_;
  std::uint64_t seed_;
  Schedule full_, tail_;
  SkippedBatches skipped_batches_;
  int repeats_;
};

/// The requests of the Loader that serves a feed's steps, from `first_step` on. Holds the order of
/// an epoch's samples, drawn with the feed's seed.
class TrainingRequests {
 public:
  explicit TrainingRequests(TrainingFeed feed, std::int64_t first_step = 0);
  TrainingRequests(TrainingRequests&&) noexcept;
  TrainingRequests& operator=(TrainingRequests&&) noexcept;
  ~TrainingRequests();
  /// As if made anew, with a feed of as many samples and the same seed; no thread may be in next().
  void restart(TrainingFeed feed, std::int64_t first_step);

  /// The next micro-batch of this rank, in the order in which Replica::train_step takes them.
  bool next(data::LoadRequest& request);

  /// Of the order of an epoch's samples.
  std::size_t memory_bytes() const;

 private:
  void request_copies(const MicroBatch& micro_batch,
                      std::int64_t batch,
                      data::LoadRequest& request);

  TrainingFeed feed_;
  std::unique_ptr<data::Sampler> sampler_;
  std::int64_t step_;
  std::size_t shard_ = 0, micro_batch_ = 0;
};

/// The requests of the Loader that serves an evaluation: samples in order, this rank's
/// micro-batches. `schedule` must outlive it.
class EvaluationFeed {
 public:
  explicit EvaluationFeed(const Schedule& schedule) : schedule_(schedule) {}
  bool next(data::LoadRequest& request);

 private:
  const Schedule& schedule_;
  std::size_t shard_ = 0, micro_batch_ = 0;
};

}  // namespace lockstep

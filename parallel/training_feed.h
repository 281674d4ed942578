// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/loader.h"
#include "core/data/sampler.h"
#include "parallel/schedule.h"

namespace lockstep {

/// Samples in the steps before `step`, where an epoch's last batch may be short.
std::int64_t samples_before(std::int64_t step,
                            std::int64_t dataset_size,
                            std::int64_t global_batch);

/// Which samples this rank loads for which micro-batch, step after step: the requests of its
/// Loader. An epoch of S samples is ceil(S / B) steps, the last of which may be short.
class TrainingFeed {
 public:
  /// `full` and `tail` are this rank's schedules for whole and for the epoch's last short batch
  /// (equal to `full` where S divides). Requests begin with those of `first_step`.
  TrainingFeed(std::int64_t dataset_size,
               std::int64_t global_batch,
               std::int64_t steps,
               std::uint64_t seed,
               Schedule full,
               Schedule tail,
               std::int64_t first_step = 0);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  bool is_tail(std::int64_t step) const;
  const Schedule& schedule(std::int64_t step) const { return is_tail(step) ? tail_ : full_; }
  std::int64_t samples_before(std::int64_t step) const {
    return lockstep::samples_before(step, dataset_size_, global_batch_);
  }

  /// The next micro-batch of this rank, in the order in which Replica::train_step takes them.
  bool next(data::LoadRequest& request);

 private:
  std::int64_t dataset_size_, global_batch_, steps_, steps_per_epoch_;
  Schedule full_, tail_;
  data::Sampler sampler_;
  std::int64_t step_;
  std::size_t shard_ = 0, micro_batch_ = 0;
};

/// The requests of an evaluation: samples in order, this rank's micro-batches.
class EvaluationFeed {
 public:
  explicit EvaluationFeed(const Schedule& schedule) : schedule_(schedule) {}
  bool next(data::LoadRequest& request);

 private:
  const Schedule& schedule_;
  std::size_t shard_ = 0, micro_batch_ = 0;
};

}  // namespace lockstep

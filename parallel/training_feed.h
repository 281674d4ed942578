// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/loader.h"
#include "core/data/sampler.h"
#include "core/io/checkpoint.h"
#include "parallel/schedule.h"

namespace lockstep {

/// Ranges of batches in ascending order, apart from each other, that no step uses.
using LeftOut = std::vector<io::BatchRange>;

/// The batch that step number `step` (from 0) uses: the one of that number among those that are not
/// left out.
std::int64_t batch_of_step(std::int64_t step, const LeftOut& left_out);

/// Leaves out all batches from the one that `first_step` uses to that of `last_step`.
void leave_out(LeftOut& left_out, std::int64_t first_step, std::int64_t last_step);

/// Samples in the steps before `step`, where an epoch's last batch may be short.
std::int64_t samples_before(std::int64_t step,
                            std::int64_t dataset_size,
                            std::int64_t global_batch,
                            const LeftOut& left_out = {});

/// Which samples this rank loads for which micro-batch, step after step: the requests of its
/// Loader. An epoch of S samples is ceil(S / B) batches, the last of which may be short; step s
/// uses batch s, unless batches are left out.
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
               std::int64_t first_step = 0,
               LeftOut left_out = {});
  /// The same with requests from `first_step` on.
  TrainingFeed from(std::int64_t first_step) const;
  /// The same with other batches left out, and requests from `first_step` on.
  TrainingFeed from(std::int64_t first_step, LeftOut left_out) const;

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  bool is_tail(std::int64_t step) const;
  const Schedule& schedule(std::int64_t step) const { return is_tail(step) ? tail_ : full_; }
  std::int64_t samples_before(std::int64_t step) const {
    return lockstep::samples_before(step, dataset_size_, global_batch_, left_out_);
  }
  /// Epochs of the data that are done with `step` steps.
  double epochs_after(std::int64_t step) const;
  const LeftOut& left_out() const { return left_out_; }

  /// The next micro-batch of this rank, in the order in which Replica::train_step takes them.
  bool next(data::LoadRequest& request);

 private:
  std::int64_t dataset_size_, global_batch_, steps_, steps_per_epoch_;
  Schedule full_, tail_;
  data::Sampler sampler_;
  LeftOut left_out_;
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

// SPDX-License-Identifier: Apache-2.0
#include "parallel/training_feed.h"

#include <numeric>

namespace lockstep {
namespace {

/// Moves (shard, micro_batch) to the next micro-batch of `schedule`; null at its end.
const MicroBatch* take(const Schedule& schedule, std::size_t& shard, std::size_t& micro_batch) {
  while (shard < schedule.work.size()) {
    const auto& micro_batches = schedule.work[shard].micro_batches;
    if (micro_batch < micro_batches.size()) return &micro_batches[micro_batch++];
    ++shard;
    micro_batch = 0;
  }
  return nullptr;
}

}  // namespace

std::int64_t samples_before(std::int64_t step,
                            std::int64_t dataset_size,
                            std::int64_t global_batch) {
  const std::int64_t steps_per_epoch = (dataset_size - 1) / global_batch + 1;
  return step / steps_per_epoch * dataset_size + step % steps_per_epoch * global_batch;
}

TrainingFeed::TrainingFeed(std::int64_t dataset_size,
                           std::int64_t global_batch,
                           std::int64_t steps,
                           std::uint64_t seed,
                           Schedule full,
                           Schedule tail,
                           std::int64_t first_step)
    : dataset_size_(dataset_size),
      global_batch_(global_batch),
      steps_(steps),
      steps_per_epoch_((dataset_size - 1) / global_batch + 1),
      full_(std::move(full)),
      tail_(std::move(tail)),
      sampler_(dataset_size, seed, true),
      step_(first_step) {}

bool TrainingFeed::is_tail(std::int64_t step) const {
  return dataset_size_ % global_batch_ != 0 && step % steps_per_epoch_ == steps_per_epoch_ - 1;
}

bool TrainingFeed::next(data::LoadRequest& request) {
  for (; step_ < steps_; ++step_, shard_ = 0, micro_batch_ = 0) {
    const MicroBatch* next = take(schedule(step_), shard_, micro_batch_);
    if (next == nullptr) continue;
    const std::int64_t epoch = step_ / steps_per_epoch_;
    const std::int64_t first = step_ % steps_per_epoch_ * global_batch_ + next->first_sample;
    const std::int64_t* samples = sampler_.range(std::uint64_t(epoch), first, next->samples);
    request.epoch = std::uint64_t(epoch);
    request.samples.assign(samples, samples + next->samples);
    return true;
  }
  return false;
}

bool EvaluationFeed::next(data::LoadRequest& request) {
  const MicroBatch* next = take(schedule_, shard_, micro_batch_);
  if (next == nullptr) return false;
  request.epoch = 0;
  request.samples.resize(std::size_t(next->samples));
  std::iota(request.samples.begin(), request.samples.end(), next->first_sample);
  return true;
}

}  // namespace lockstep

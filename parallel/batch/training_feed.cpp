// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/training_feed.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/data/sampler.h"
#include "lockstep/data/load_request.h"

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

std::int64_t batch_of_step(std::int64_t step, const SkippedBatches& skipped_batches) {
  std::int64_t batch = step;
  for (const io::BatchRange& range : skipped_batches) {
    if (batch < range.first) break;
    batch += range.last - range.first;
  }
  return batch;
}

void skip_batches(SkippedBatches& skipped_batches,
                  std::int64_t first_step,
                  std::int64_t last_step) {
  io::BatchRange added{batch_of_step(first_step, skipped_batches),
                       batch_of_step(last_step, skipped_batches) + 1};
  // Ranges that it holds or touches become part of it; none can reach beyond.
  const auto touches = [&](const io::BatchRange& range) { return range.last >= added.first; };
  for (const io::BatchRange& range : skipped_batches)
    if (touches(range)) added.first = std::min(added.first, range.first);
  std::erase_if(skipped_batches, touches);
  skipped_batches.push_back(added);
}

std::int64_t samples_before(std::int64_t step,
                            std::int64_t dataset_size,
                            std::int64_t global_batch,
                            const SkippedBatches& skipped_batches) {
  const std::int64_t steps_per_epoch = (dataset_size - 1) / global_batch + 1;
  const auto position = [&](std::int64_t batch) {
    return batch / steps_per_epoch * dataset_size + batch % steps_per_epoch * global_batch;
  };
  const std::int64_t batch = batch_of_step(step, skipped_batches);
  std::int64_t samples = position(batch);
  for (const io::BatchRange& range : skipped_batches)
    if (range.last <= batch) samples -= position(range.last) - position(range.first);
  return samples;
}

TrainingFeed::TrainingFeed(std::int64_t dataset_size,
                           std::int64_t global_batch,
                           std::int64_t steps,
                           std::uint64_t seed,
                           Schedule full,
                           Schedule tail,
                           SkippedBatches skipped_batches,
                           int repeats)
    : dataset_size_(dataset_size),
      global_batch_(global_batch),
      steps_(steps),
      steps_per_epoch_((dataset_size - 1) / global_batch + 1),
      seed_(seed),
      full_(std::move(full)),
      tail_(std::move(tail)),
      skipped_batches_(std::move(skipped_batches)),
      repeats_(repeats) {
  LOCKSTEP_ASSERT(repeats >= 1 && global_batch % repeats == 0);
}

std::uint64_t TrainingFeed::epoch(std::int64_t step) const {
  return std::uint64_t(batch_of_step(step, skipped_batches_) / steps_per_epoch_);
}

double TrainingFeed::epochs_after(std::int64_t step) const {
  const std::int64_t batches = step == 0 ? 0 : batch_of_step(step - 1, skipped_batches_) + 1;
  return double(batches) / double(steps_per_epoch_);
}

bool TrainingFeed::is_tail(std::int64_t step) const {
  return dataset_size_ % global_batch_ != 0 &&
         batch_of_step(step, skipped_batches_) % steps_per_epoch_ == steps_per_epoch_ - 1;
}

std::int64_t TrainingFeed::samples_before(std::int64_t step) const {
  return lockstep::samples_before(step, dataset_size_, global_batch_, skipped_batches_);
}

TrainingRequests::TrainingRequests(TrainingFeed feed, std::int64_t first_step)
    : feed_(std::move(feed)),
      sampler_(std::make_unique<data::Sampler>(feed_.dataset_size(), feed_.seed(), true)),
      step_(first_step) {}

TrainingRequests::TrainingRequests(TrainingRequests&&) noexcept = default;
TrainingRequests& TrainingRequests::operator=(TrainingRequests&&) noexcept = default;
TrainingRequests::~TrainingRequests() = default;

std::size_t TrainingRequests::memory_bytes() const {
  return data::Sampler::memory_bytes(feed_.dataset_size());
}

void TrainingRequests::restart(TrainingFeed feed, std::int64_t first_step) {
  LOCKSTEP_ASSERT(feed.dataset_size() == feed_.dataset_size() && feed.seed() == feed_.seed());
  feed_ = std::move(feed);
  step_ = first_step;
  shard_ = micro_batch_ = 0;
}

bool TrainingRequests::next(data::LoadRequest& request) {
  for (; step_ < feed_.steps(); ++step_, shard_ = 0, micro_batch_ = 0) {
    const MicroBatch* next = take(feed_.schedule(step_), shard_, micro_batch_);
    if (next == nullptr) continue;
    const std::int64_t batch = batch_of_step(step_, feed_.skipped_batches());
    const auto epoch = std::uint64_t(batch / feed_.steps_per_epoch());
    const std::int64_t first =
        batch % feed_.steps_per_epoch() * feed_.global_batch() + next->first_sample;
    request.epoch = epoch;
    request.position = first;
    if (feed_.repeats() > 1) {
      request_copies(*next, batch % feed_.steps_per_epoch(), request);
      return true;
    }
    const auto samples = sampler_->range(epoch, first, next->samples);
    request.samples.assign(samples.begin(), samples.end());
    return true;
  }
  return false;
}

/// Copies of a sample are as far apart as a batch allows: mixup mixes neighbours, and batch norm
/// sees a micro-batch.
void TrainingRequests::request_copies(const MicroBatch& micro_batch,
                                      std::int64_t batch,
                                      data::LoadRequest& request) {
  const std::int64_t whole = feed_.global_batch(), repeats = feed_.repeats();
  const std::int64_t samples = std::min(whole, feed_.dataset_size() - batch * whole);
  const std::int64_t distinct = (samples - 1) / repeats + 1;
  const auto drawn = sampler_->range(request.epoch, batch * (whole / repeats), distinct);
  request.samples.clear();
  request.copies.clear();
  for (std::int64_t i = 0; i < micro_batch.samples; ++i) {
    const std::int64_t place = micro_batch.first_sample + i;
    request.samples.push_back(drawn[std::size_t(place % distinct)]);
    request.copies.push_back(int(place / distinct));
  }
}

bool EvaluationFeed::next(data::LoadRequest& request) {
  const MicroBatch* next = take(schedule_, shard_, micro_batch_);
  if (next == nullptr) return false;
  request.epoch = 0;
  request.position = next->first_sample;
  request.samples.resize(std::size_t(next->samples));
  std::iota(request.samples.begin(), request.samples.end(), next->first_sample);
  return true;
}

}  // namespace lockstep

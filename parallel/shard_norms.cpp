// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard_norms.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

ShardNorms::ShardNorms(Backend& backend,
                       const Graph& graph,
                       const FlatSpace& space,
                       const float* gradients,
                       std::int64_t every,
                       int max_shards)
    : backend_(backend), gradients_(gradients), every_(every), buckets_(space.buckets.size()) {
  if (every_ == 0) return;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    const Segment& segment = space.of(int(i));
    BucketTensors& bucket = buckets_[std::size_t(segment.bucket)];
    bucket.ranges.push_back({.offset = segment.offset, .elems = segment.elems});
    bucket.numbers.push_back(squared_.size());
    squared_.push_back(0);
  }
  for (BucketTensors& bucket : buckets_) {
    bucket.squared.resize(bucket.ranges.size());
    backend_.reserve_norms(bucket.ranges);
  }
  norms_.reserve(kMostSteps * std::size_t(max_shards));
  steps_.reserve(kMostSteps);
}

void ShardNorms::begin_step(std::int64_t step, bool suits) {
  if (taken_) {
    norms_.clear();
    steps_.clear();
  }
  taken_ = false;
  step_ = step;
  measures_ = every_ > 0 && step % every_ == 0 && suits && steps_.size() < kMostSteps;
  if (measures_) steps_.push_back(step);
}

bool ShardNorms::has_measured(std::int64_t step) const {
  return std::ranges::find(steps_, step) != steps_.end();
}

void ShardNorms::add_bucket(int index) {
  BucketTensors& bucket = buckets_[std::size_t(index)];
  if (bucket.ranges.empty()) return;
  backend_.squared_norms(gradients_, bucket.ranges, bucket.squared.data());
  for (std::size_t i = 0; i < bucket.numbers.size(); ++i)
    squared_[bucket.numbers[i]] = bucket.squared[i];
}

void ShardNorms::end_shard(std::int64_t shard, std::int64_t samples, std::int64_t step_samples) {
  norms_.push_back({.step = step_,
                    .shard = shard,
                    .samples = samples,
                    .step_samples = step_samples,
                    .squared = std::accumulate(squared_.begin(), squared_.end(), 0.0)});
}

std::span<const ShardNorm> ShardNorms::take() {
  taken_ = true;
  return norms_;
}

}  // namespace lockstep

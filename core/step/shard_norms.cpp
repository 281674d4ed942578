// SPDX-License-Identifier: Apache-2.0
#include "core/step/shard_norms.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep {

ShardNorms::ShardNorms(Backend& backend,
                       const Graph& graph,
                       const FlatSpace& space,
                       const float* gradients,
                       const GradientSpace& places,
                       std::int64_t every,
                       int max_shards)
    : backend_(backend), gradients_(gradients), every_(every), buckets_(space.buckets.size()) {
  if (every_ == 0) return;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    if (parameter.kind != ParameterKind::trained || parameter.frozen) continue;
    const Segment& segment = space.of(int(i));
    std::vector<Run>& runs = buckets_[std::size_t(segment.bucket)];
    if (runs.empty() || runs.back().first + runs.back().ranges.size() != parameters_)
      runs.push_back({.first = parameters_, .ranges = {}});
    runs.back().ranges.push_back({.offset = places.place_of(segment), .elems = segment.elems});
    ++parameters_;
  }
  for (const std::vector<Run>& runs : buckets_)
    for (const Run& run : runs) backend_.reserve_norms(run.ranges);
  const std::size_t max_norms = kMaxSteps * std::size_t(max_shards);
  squared_ = backend_.allocate((parameters_ + 1) * sizeof(double), "squared norms of a shard");
  slots_ = backend_.allocate_host(max_norms * sizeof(double), "squared norms of shards");
  copied_ = backend_.make_event();
  norms_.reserve(max_norms);
  steps_.reserve(kMaxSteps);
}

ShardNorms::~ShardNorms() {
  try {
    if (!norms_.empty()) copied_->wait();
  } catch (const Error&) {  // a lost device has no copies under way
  }
}

void ShardNorms::begin_step(std::int64_t step, bool suits) {
  if (taken_) {
    norms_.clear();
    steps_.clear();
  }
  taken_ = false;
  step_ = step;
  measures_ = every_ > 0 && step % every_ == 0 && suits && steps_.size() < kMaxSteps;
  if (measures_) steps_.push_back(step);
}

bool ShardNorms::has_measured(std::int64_t step) const {
  return std::ranges::find(steps_, step) != steps_.end();
}

void ShardNorms::add_bucket(int index) {
  for (const Run& run : buckets_[std::size_t(index)])
    backend_.start_squared_norms(gradients_, run.ranges, squared_->as<double>() + run.first);
}

void ShardNorms::end_shard(std::int64_t shard, std::int64_t samples, std::int64_t step_samples) {
  double* const squared = squared_->as<double>();
  double* const sum = squared + parameters_;
  const auto count = std::int64_t(parameters_);
  backend_.add_in_order(squared, {&count, 1}, sum);
  backend_.start_copy_to_host(slots_->as<double>() + norms_.size(), sum, sizeof *sum);
  backend_.record(*copied_);
  norms_.push_back(
      {.step = step_, .shard = shard, .samples = samples, .step_samples = step_samples});
}

std::span<const ShardNorm> ShardNorms::take() {
  taken_ = true;
  if (norms_.empty()) return {};
  copied_->wait();
  for (std::size_t i = 0; i < norms_.size(); ++i) norms_[i].squared = slots_->as<double>()[i];
  return norms_;
}

std::size_t ShardNorms::bytes() const {
  return every_ == 0 ? 0 : squared_->bytes() + slots_->bytes();
}

}  // namespace lockstep

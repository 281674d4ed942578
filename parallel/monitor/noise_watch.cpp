// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/noise_watch.h"

#include <algorithm>
#include <tuple>

#include "core/exec/agreement.h"
#include "core/exec/communicator.h"
#include "core/step/shard_norms.h"

namespace lockstep {
namespace {

/// Of norms that fill up what ranks send to as many; before every step.
constexpr std::int64_t kNoStep = -1;

}  // namespace

NoiseWatch::NoiseWatch(RankContext& context, ShardNorms& norms)
    : context_(context), shard_norms_(norms) {
  results_.reserve(ShardNorms::kMaxSteps);
  steps_.reserve(ShardNorms::kMaxSteps);
}

void NoiseWatch::take(const StepResult& result) {
  if (shard_norms_.has_measured(result.step)) results_.push_back(result);
}

// By steps and not by results, so that where those come late the scale is the same.
bool NoiseWatch::due() const { return shard_norms_.measured_steps() + 1 >= ShardNorms::kMaxSteps; }

void NoiseWatch::forget() {
  (void)shard_norms_.take();
  results_.clear();
}

void NoiseWatch::gather() {
  if (results_.empty()) return;
  gather_shards();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const StepResult& result = results_[i];
    // Of the mean over the labels that count; shards weigh by all rows.
    const double whole = result.grad_norm * result.counted;
    steps_[i].whole = whole * whole;
    steps_[i].samples = result.samples;
    if (!result.bad) scale_.add(steps_[i]);
  }
  results_.clear();
}

void NoiseWatch::gather_shards() {
  Communicator& ranks = context_.host_communicator();
  const std::span<const ShardNorm> own = shard_norms_.take();
  own_.assign(own.begin(), own.end());
  own_.resize(largest(ranks, own_.size()), {.step = kNoStep});
  norms_.resize(own_.size() * std::size_t(ranks.rank() == 0 ? ranks.size() : 0));
  ranks.gather(own_.data(), norms_.data(), own_.size() * sizeof(ShardNorm), 0);
  std::ranges::sort(norms_, {}, [](const ShardNorm& n) { return std::tuple(n.step, n.shard); });
  steps_.assign(results_.size(), {});
  auto norm = std::ranges::find_if(norms_, [](const ShardNorm& n) { return n.step != kNoStep; });
  for (std::size_t i = 0; i < steps_.size(); ++i)
    for (; norm != norms_.end() && norm->step == results_[i].step; ++norm) {
      const double share = double(norm->samples) / double(norm->step_samples);
      steps_[i].shards += norm->squared;
      steps_[i].squared_shares += share * share;
    }
  ranks.broadcast(steps_.data(), steps_.size() * sizeof(GradientNorms), 0);
}

}  // namespace lockstep

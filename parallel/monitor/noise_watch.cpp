// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/noise_watch.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/exec/communicator.h"
#include "core/step/shard_norms.h"

namespace lockstep {
namespace {

/// Norms of more ranks do not keep their memory from one time to the next.
constexpr int kMaxKept = 256;

}  // namespace

NoiseWatch::NoiseWatch(RankContext& context, ShardNorms& norms)
    : context_(context), shard_norms_(norms), bytes_(std::size_t(context.size())) {
  results_.reserve(ShardNorms::kMaxSteps);
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
  gather_norms();
  auto norm = norms_.begin();
  for (const StepResult& result : results_) {
    // Of the mean over the labels that count; shards weigh by all rows.
    const double whole = result.grad_norm * result.counted;
    GradientNorms step{.whole = whole * whole, .samples = result.samples};
    for (; norm != norms_.end() && norm->step == result.step; ++norm) {
      const double share = double(norm->samples) / double(norm->step_samples);
      step.shards += norm->squared;
      step.squared_shares += share * share;
    }
    if (!result.bad) scale_.add(step);
  }
  results_.clear();
  if (context_.size() > kMaxKept) norms_ = std::vector<ShardNorm>();
}

void NoiseWatch::gather_norms() {
  Communicator& ranks = context_.host_communicator();
  const std::span<const ShardNorm> own = shard_norms_.take();
  const std::size_t bytes = own.size_bytes();
  ranks.all_gather(&bytes, bytes_.data(), sizeof bytes);
  norms_.resize(std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0}) / sizeof(ShardNorm));
  ranks.all_gather_v(own.data(), norms_.data(), bytes_);
  std::ranges::sort(norms_, {}, [](const ShardNorm& n) { return std::tuple(n.step, n.shard); });
}

}  // namespace lockstep

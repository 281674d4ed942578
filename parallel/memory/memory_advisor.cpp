// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/memory_advisor.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <limits>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"
#include "lockstep/schedule.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/replica/compiled_programs.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kWholeMiB = std::uint64_t{1} << 20;

/// One way to save memory, tried out: `recompute` as given, with micro-batches up to a bound.
class FixSearch {
 public:
  FixSearch(Backend& device,
            const PlanRequest& request,
            const MemoryTarget& target,
            Recompute recompute)
      : device_(device), request_(request), target_(target), asked_(request.options) {
    request_.options.recompute = recompute;
  }

  std::optional<MemoryFix> find(std::int64_t most) {
    const auto any = largest(most);
    if (!any) return std::nullopt;
    const bool must_be_even = asked_.accumulation > 0;
    const std::int64_t parts = asked_.global_batch / request_.ranks;
    if (asked_.global_batch % request_.ranks != 0) return must_be_even ? std::nullopt : any;
    const std::int64_t last = must_be_even ? 1 : (any->micro_batch + 1) / 2;
    for (std::int64_t micro = any->micro_batch; micro >= last; --micro)
      if (parts % micro == 0)
        if (auto even = plan(micro, parts / micro)) return even;
    return must_be_even ? std::nullopt : any;
  }

  /// What fits with one micro-batch; without `accumulation` where that is 0.
  std::optional<MemoryFix> plan(std::int64_t micro_batch, std::int64_t accumulation) {
    request_.options.micro_batch = micro_batch;
    request_.options.accumulation = accumulation;
    if (request_.options.recompute == Recompute::automatic)
      return plan_recomputing(micro_batch, accumulation);
    request_.options.memory_limit = 0;
    const auto plan = try_plan_memory(device_, request_);
    if (!plan || !fits(plan->table)) return std::nullopt;
    return fix(plan->table, micro_batch, accumulation);
  }

 private:
  /// Of on_device(): the rest of the target, or what was asked for.
  std::uint64_t limit_beside(std::uint64_t host_bytes) const {
    const std::uint64_t rest = target_.bytes - std::min(target_.bytes, host_bytes);
    return asked_.memory_limit > 0 ? std::min(rest, asked_.memory_limit) : rest;
  }

  /// Sets excess_.
  bool fits(const MemoryTable& table) {
    const std::uint64_t device = table.on_device();
    const std::uint64_t limit = limit_beside(target_.needed(table) - device);
    excess_ = device - std::min(device, limit);
    return device <= limit;
  }

  MemoryFix fix(const MemoryTable& table,
                std::int64_t micro_batch,
                std::int64_t accumulation) const {
    return {
        .micro_batch = micro_batch, .accumulation = accumulation, .needed = target_.needed(table)};
  }

  std::optional<MemoryFix> plan_recomputing(std::int64_t micro_batch, std::int64_t accumulation) {
    TrainOptions& options = request_.options;
    // What lies outside the device does not depend on what is computed again.
    options.recompute = Recompute::all;
    options.memory_limit = 0;
    const auto all = try_plan_memory(device_, request_);
    options.recompute = Recompute::automatic;
    if (!all) return std::nullopt;
    fits(all->table);
    const std::uint64_t limit = limit_beside(target_.needed(all->table) - all->table.on_device());
    if (limit == 0) return std::nullopt;
    options.memory_limit = limit;
    const auto plan = try_plan_memory(device_, request_);
    if (!plan || !fits(plan->table)) return std::nullopt;
    MemoryFix result = fix(plan->table, micro_batch, accumulation);
    result.recompute = asked_.recompute != Recompute::automatic;
    const std::uint64_t bytes = plan->table.on_device();
    const std::uint64_t whole = (bytes + kWholeMiB - 1) / kWholeMiB * kWholeMiB;
    if (limit != asked_.memory_limit) result.memory_limit = whole <= limit ? whole : bytes;
    return result;
  }

  /// The largest micro-batch up to `most` that fits.
  std::optional<MemoryFix> largest(std::int64_t most) {
    std::uint64_t limit = limit_beside(0);
    // What is searched with leaves the host's part and short last micro-batches out: what was too
    // much because of them is taken off.
    for (int attempt = 0; attempt < kAttempts && most > 0; ++attempt) {
      request_.options.micro_batch = request_.options.accumulation = 0;
      std::int64_t micro =
          std::min(most, largest_micro_batch(device_, request_, limit).micro_batch);
      while (micro > 0 && !batch_with(request_, micro)) --micro;
      if (micro == 0) return std::nullopt;
      excess_ = 0;
      if (auto fix = plan(micro, 0)) return fix;
      most = micro - 1;
      limit -= std::min(limit, excess_);
    }
    return std::nullopt;
  }

  static constexpr int kAttempts = 8;

  Backend& device_;
  PlanRequest request_;
  MemoryTarget target_;
  TrainOptions asked_;
  std::uint64_t excess_ = 0;  // of the last plan over what it had to fit
};

std::int64_t micro_batch_of(const PlanRequest& request) {
  return plan_batch(request.options, request.ranks).micro_batch;
}

/// A smaller micro-batch, or recomputation.
std::optional<MemoryFix> change_engine(Backend& device,
                                       const PlanRequest& request,
                                       const MemoryTarget& target) {
  const std::int64_t micro = micro_batch_of(request);
  const Recompute asked = request.options.recompute;
  if (asked != Recompute::automatic)
    if (auto fix = FixSearch(device, request, target, asked).find(micro - 1)) return fix;
  if (asked == Recompute::all) return std::nullopt;
  FixSearch recomputing(device, request, target, Recompute::automatic);
  if (auto same = recomputing.plan(micro, request.options.accumulation)) {
    same->micro_batch = same->accumulation = 0;
    return same;
  }
  return recomputing.find(micro - 1);
}

/// With `sharding` and nothing else.
std::optional<MemoryFix> shard_alone(Backend& device,
                                     const PlanRequest& sharded,
                                     const MemoryTarget& target) {
  const TrainOptions& options = sharded.options;
  FixSearch search(device, sharded, target, options.recompute);
  auto same = search.plan(micro_batch_of(sharded), options.accumulation);
  if (!same) return std::nullopt;
  same->micro_batch = same->accumulation = 0;
  same->sharding = options.sharding;
  return same;
}

/// The same, or more sharding, or both.
std::optional<MemoryFix> change_or_shard(Backend& device,
                                         const PlanRequest& request,
                                         const MemoryTarget& target) {
  const Sharding asked = request.options.sharding;
  const bool may_shard = request.ranks > 1 && request.options.reduction != Reduction::fast;
  PlanRequest sharded = request;
  if (may_shard && asked == Sharding::none) {
    sharded.options.sharding = Sharding::optimizer;
    if (auto fix = shard_alone(device, sharded, target)) return fix;
  }
  if (auto fix = change_engine(device, request, target)) return fix;
  if (!may_shard) return std::nullopt;
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients}) {
    if (sharding <= asked) continue;
    sharded.options.sharding = sharding;
    if (sharding == Sharding::gradients)
      if (auto fix = shard_alone(device, sharded, target)) return fix;
    if (auto fix = change_engine(device, sharded, target)) {
      fix->sharding = sharding;
      return fix;
    }
  }
  return std::nullopt;
}

/// With `ranks` of `target.sharers` on each host.
std::optional<MemoryFix> with_ranks(Backend& device,
                                    PlanRequest request,
                                    MemoryTarget target,
                                    int ranks) {
  target.bytes = target.bytes * std::uint64_t(target.colocated_ranks) / std::uint64_t(ranks);
  request.ranks = request.ranks / target.colocated_ranks * ranks;
  request.options.accumulation = 0;  // it would be another global batch's
  target.colocated_ranks = ranks;
  if (!batch_with(request, request.options.micro_batch)) return std::nullopt;
  if (const auto plan = try_plan_memory(device, request)) {
    const MemoryFix fix{.ranks = request.ranks, .needed = target.needed(plan->table)};
    if (fix.needed <= target.bytes) return fix;
  }
  if (ranks > 1) return std::nullopt;  // first, the most ranks that need nothing else
  auto change = change_or_shard(device, request, target);
  if (change) change->ranks = request.ranks;
  return change;
}

std::optional<MemoryFix> fewer_ranks(Backend& device,
                                     const PlanRequest& request,
                                     const MemoryTarget& target,
                                     std::uint64_t needed) {
  // An accumulation that was asked for ties the global batch to the ranks.
  if (target.colocated_ranks < 2 || request.ranks % target.colocated_ranks != 0 ||
      request.options.accumulation > 0)
    return std::nullopt;
  // What a rank needs changes little with their number.
  const double all = double(target.bytes) * target.colocated_ranks;
  const int guess = int(std::min(all / double(std::max<std::uint64_t>(1, needed)), 1e6)) + 1;
  for (int ranks = std::clamp(guess, 1, target.colocated_ranks - 1); ranks > 0; --ranks)
    if (auto fix = with_ranks(device, request, target, ranks)) return fix;
  return std::nullopt;
}

/// `request`, which has settings of `flags`, with what else it takes to fit.
OtherSetting with_flags(Backend& device,
                        const PlanRequest& request,
                        const MemoryTarget& target,
                        const std::string& flags) {
  FixSearch as_it_is(device, request, target, request.options.recompute);
  auto fix = as_it_is.plan(micro_batch_of(request), request.options.accumulation);
  if (fix) fix->micro_batch = fix->accumulation = 0;
  if (!fix) fix = change_or_shard(device, request, target);
  if (fix) {
    const std::string more = fix->flags();
    return {flags + (more.empty() ? "" : " ") + more, fix->needed, true};
  }
  PlanRequest recomputing = request;
  recomputing.options.recompute = Recompute::automatic;
  return {flags, min_memory(device, recomputing, target).needed, false};
}

/// What would help where no way to compute the same thing does.
std::vector<OtherSetting> other_settings(Backend& device,
                                         const PlanRequest& request,
                                         const MemoryTarget& target) {
  std::vector<OtherSetting> others;
  const auto add = [&](const std::string& flags, const TrainOptions& options) {
    PlanRequest other = request;
    other.options = options;
    try {
      others.push_back(with_flags(device, other, target, name_parameters(flags)));
    } catch (const Error&) {
      // Not for this model or device: no advice.
    }
  };
  TrainOptions less_state = request.options, bf16 = request.options;
  less_state.optimizer = Sgd{};
  bf16.precision = Precision::bf16;
  const bool has_state = state_arrays(request.options.optimizer) > 0;
  const bool has_bf16 = request.options.precision != Precision::bf16;
  if (has_state) add("`optimizer` sgd `momentum` 0", less_state);
  if (has_bf16) add("`precision` bf16", bf16);
  if (!has_state || !has_bf16) return others;
  bf16.optimizer = less_state.optimizer;
  add("`optimizer` sgd `momentum` 0 `precision` bf16", bf16);
  return others;
}

}  // namespace

std::uint64_t MemoryTarget::needed(const MemoryTable& table) const {
  return (host ? table.planned() : table.on_device()) + more;
}

std::string MemoryFix::flags() const {
  std::string text;
  const auto add = [&](const std::string& flag) {
    text += (text.empty() ? "" : " ") + name_parameters(flag);
  };
  if (micro_batch > 0) add(fmt::format("`micro_batch` {}", micro_batch));
  if (accumulation > 0) add(fmt::format("`accumulation` {}", accumulation));
  if (sharding != Sharding::none) add(fmt::format("`shard` {}", name_of(sharding)));
  if (recompute) add("`recompute` auto");
  if (memory_limit > 0)
    add(memory_limit % kWholeMiB == 0
            ? fmt::format("`memory_limit` {}MiB", memory_limit / kWholeMiB)
            : fmt::format("`memory_limit` {}", memory_limit));
  return text;
}

MemoryPlan plan_min_memory(Backend& device, PlanRequest request) {
  TrainOptions& options = request.options;
  const bool may_choose = options.recompute == Recompute::automatic;
  options.memory_limit = 0;
  if (may_choose) options.recompute = Recompute::all;
  MemoryPlan least = plan_memory(device, request);
  if (!may_choose) return least;
  options.recompute = Recompute::automatic;
  while (true) {
    options.memory_limit = least.limited_bytes - 1;
    auto less = try_plan_memory(device, request);
    if (!less || less->limited_bytes >= least.limited_bytes) return least;
    least = std::move(*less);
  }
}

MinMemory min_memory(Backend& device, const PlanRequest& asked, const MemoryTarget& target) {
  PlanRequest request = with_sizes(device, asked);
  request.options.accumulation = 0;
  std::int64_t smallest = 1;
  while (smallest < request.options.global_batch && !batch_with(request, smallest)) ++smallest;
  std::int64_t best = smallest;
  std::size_t least = SIZE_MAX;
  const std::int64_t global = request.options.global_batch;
  const std::int64_t single = least_of_single_shards(request.options);  // from here on divided
  std::vector<std::int64_t> sizes{single};
  for (std::int64_t micro = smallest; micro <= global;
       micro = std::int64_t(std::bit_ceil(std::uint64_t(micro) + 1)))
    sizes.push_back(micro);
  std::ranges::sort(sizes);
  for (const std::int64_t micro : sizes) {
    const auto batch = batch_with(request, micro);
    if (!batch) continue;
    TrainOptions options = request.options;
    options.micro_batch = micro;
    const std::size_t bytes = request.sizes->least_bytes(options, *batch);
    // Sizes that make no fewer shards only take more.
    if (bytes > least && micro >= single && micro > global / most_derived_shards(request.options))
      break;
    if (bytes < least) best = micro;
    least = std::min(least, bytes);
  }
  request.options.micro_batch = best;
  MemoryPlan plan = plan_min_memory(request.sizes->device(), request);
  return {best, target.needed(plan.table), std::move(plan)};
}

MemoryAdvice advise(Backend& real, const PlanRequest& asked, const MemoryTarget& target) {
  const PlanRequest request = with_sizes(real, asked);
  Backend& device = request.sizes->device();
  MemoryAdvice advice{.needed = target.needed(plan_min_memory(device, request).table)};
  advice.fix = change_or_shard(device, request, target);
  if (!advice.fix) advice.fix = fewer_ranks(device, request, target, advice.needed);
  if (advice.fix) {
    advice.fix->saved = advice.needed - std::min(advice.needed, advice.fix->needed);
    return advice;
  }
  PlanRequest recomputing = request;
  recomputing.options.recompute = Recompute::automatic;
  advice.least = min_memory(device, recomputing, target);
  advice.others = other_settings(device, request, target);
  return advice;
}

}  // namespace lockstep

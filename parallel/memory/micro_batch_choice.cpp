// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/micro_batch_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "core/base/check.h"
#include "core/base/text/number_format.h"
#include "core/exec/agreement.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/memory/micro_batch_timer.h"
#include "parallel/replica/algorithm_broadcast.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {
namespace {

/// Measuring ends here: so many sizes in a row that are slower than the fastest by so much, or so
/// many seconds.
constexpr int kSlowerInARow = 2;
constexpr double kSlower = 1.05, kMaxSeconds = 60;
/// What is free changes a little until memory is reserved: this share of it stays free.
constexpr std::uint64_t kNoiseShare = 64;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

/// Whose trials and limits are equal on every rank: each number is the most that any rank has.
class Chooser {
 public:
  Chooser(RankContext& context, const PlanRequest& request, const MemoryTarget& room)
      : context_(context), request_(request), room_(room) {}

  MicroBatchChoice choose() {
    const std::vector<std::int64_t> sizes = plannable_sizes();
    MicroBatchChoice choice{.recompute = request_.options.recompute, .trials = {}};
    choice.trials = look_at(sizes);
    if (!any_fits(choice.trials) && choice.recompute == Recompute::none) {
      request_.options.recompute = choice.recompute = Recompute::automatic;
      choice.trials = look_at(sizes);
    }
    require_one(choice.trials);
    measure(choice.trials);
    require_one(choice.trials);
    const double least = seconds_of(*std::ranges::min_element(choice.trials, {}, &seconds_of));
    for (const MicroBatchTrial& trial : choice.trials) {  // in ascending order
      const bool first = choice.micro_batch == 0;
      if (trial.fits && (first || trial.step_seconds) && seconds_of(trial) <= kAsFast * least)
        choice.micro_batch = trial.micro_batch;
    }
    if (choice.recompute == Recompute::automatic)
      choice.memory_limit = limit_for(choice.micro_batch);
    return choice;
  }

 private:
  /// What a rank finds for a size.
  struct Finding {
    std::uint64_t device_bytes = 0,
                  host_bytes = 0;  ///< the latter next to the former, in one memory
    bool refused = false;          ///< recomputation cannot keep the limit
  };

  static double seconds_of(const MicroBatchTrial& trial) {
    return trial.step_seconds.value_or(HUGE_VAL);
  }

  static bool any_fits(const std::vector<MicroBatchTrial>& trials) {
    return std::ranges::any_of(trials, &MicroBatchTrial::fits);
  }

  PlanRequest with(std::int64_t micro_batch) const {
    PlanRequest request = request_;
    request.options.micro_batch = micro_batch;
    return request;
  }

  std::vector<std::int64_t> plannable_sizes() const {
    const std::vector<std::int64_t> even =
        even_micro_batches(request_.options.global_batch, request_.ranks);
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : even)
      // A single image has none to be mixed with.
      if (size >= (request_.options.augmentation.mixes() ? 2 : 1) &&
          try_plan_batch(with(size).options, request_.ranks))
        sizes.push_back(size);
    if (sizes.empty()) plan_batch(with(even.back()).options, request_.ranks);  // says why
    LOCKSTEP_CHECK(
        !sizes.empty(),
        ConfigError,
        "`augment`: {} mixes the images of a micro-batch, and a `global_batch` of {} on {} "
        "ranks has micro-batches of one",
        request_.options.augmentation.to_string(),
        request_.options.global_batch,
        request_.ranks);
    return sizes;
  }

  /// Up to the first that is far too large. A smaller one may take more than one that follows: it
  /// makes more shards, whose sums wait for each other, and may want other packed copies.
  std::vector<MicroBatchTrial> look_at(const std::vector<std::int64_t>& sizes) {
    std::vector<MicroBatchTrial> trials;
    for (const std::int64_t size : sizes) {
      trials.push_back(look_at(size));
      if (!trials.back().fits && trials.back().device_bytes / 2 > limit_for(size) &&
          request_.options.shards != kAutoShards)  // which makes sums for each doubling
        break;
    }
    return trials;
  }

  MicroBatchTrial look_at(std::int64_t size) {
    const bool may_recompute = request_.options.recompute == Recompute::automatic;
    const MicroBatchTrial trial =
        plan(size, may_recompute ? Recompute::none : request_.options.recompute);
    return trial.fits || !may_recompute ? trial : plan(size, Recompute::automatic);
  }

  MicroBatchTrial plan(std::int64_t size, Recompute recompute) {
    PlanRequest request = with(size);
    request.options.recompute = recompute;
    request.options.memory_limit =
        recompute == Recompute::automatic ? limit_for(size) : std::uint64_t{0};
    Finding own;
    MemoryTable table;
    const auto plan_on_all_ranks = [&] {
      compile_with_broadcast_algorithms(
          context_, [&] { table = plan_memory(context_.backend(), request).table; });
    };
    try {
      plan_on_all_ranks();
    } catch (const OutOfMemory&) {
      own.refused = true;
      request.options.memory_limit = 0;
      request.options.recompute = Recompute::all;
      plan_on_all_ranks();
    }
    own.device_bytes = table.on_device();
    own.host_bytes = room_.needed(table) - own.device_bytes;
    const Finding most = agree(own);
    host_bytes_[size] = most.host_bytes;
    return {.micro_batch = size,
            .device_bytes = most.device_bytes,
            .fits = !most.refused && most.device_bytes <= limit_for(size),
            .step_seconds = {}};
  }

  Finding agree(const Finding& own) const {
    Communicator& ranks = context_.host_communicator();
    return {.device_bytes = largest(ranks, own.device_bytes),
            .host_bytes = largest(ranks, own.host_bytes),
            .refused = any_rank(ranks, own.refused)};
  }

  /// Of MemoryTable::on_device(), once the size was planned in any way.
  std::uint64_t limit_for(std::int64_t size) const {
    const std::uint64_t asked =
        request_.options.memory_limit > 0 ? request_.options.memory_limit : kNoLimit;
    if (room_.bytes == kNoLimit) return asked;
    const auto host = host_bytes_.find(size);
    const std::uint64_t beside = host == host_bytes_.end() ? 0 : host->second;
    const std::uint64_t room = room_.bytes - room_.bytes / kNoiseShare;
    return std::max<std::uint64_t>(1, std::min(asked, room - std::min(room, beside)));
  }

  void require_one(const std::vector<MicroBatchTrial>& trials) const {
    if (any_fits(trials)) return;
    const MicroBatchTrial& least =
        *std::ranges::min_element(trials, {}, &MicroBatchTrial::device_bytes);
    const std::uint64_t limit = limit_for(least.micro_batch);
    throw OutOfMemory(
        fmt::format(
            "memory: no micro-batch fits: of those tried, {} takes the least memory, {} on the "
            "device, and "
            "the limit is {}",
            least.micro_batch,
            format_bytes(double(least.device_bytes)),
            format_bytes(double(limit))),
        "use a smaller model, an optimizer with less state, or a device with more memory");
  }

  void measure(std::vector<MicroBatchTrial>& trials) const {
    const auto begin = std::chrono::steady_clock::now();
    double best = HUGE_VAL;
    int slower = 0;
    for (MicroBatchTrial& trial : trials) {
      if (!trial.fits) continue;
      if (slower == kSlowerInARow || too_late(begin)) return;
      PlanRequest request = with(trial.micro_batch);
      if (request.options.recompute == Recompute::automatic)
        request.options.memory_limit = limit_for(trial.micro_batch);
      const BatchPlan batch = plan_batch(request.options, request.ranks);
      const Schedule schedule = training_schedule(batch, batch.global_batch, 0);
      const auto seconds = time_micro_batch(context_, request, batch);
      trial.fits = seconds.has_value();
      if (!seconds) continue;
      // Where shards are dealt no rank adds up whole gradients: owners do, within the exchange.
      const double sums = schedule.turns > 1 ? 0 : double(schedule.work.size() - 1);
      trial.step_seconds = schedule.most_rounds * seconds->compute + sums * seconds->sum;
      slower = *trial.step_seconds > kSlower * best ? slower + 1 : 0;
      best = std::min(best, *trial.step_seconds);
    }
  }

  /// By rank 0's clock.
  bool too_late(std::chrono::steady_clock::time_point begin) const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    bool late = spent.count() > kMaxSeconds;
    context_.host_communicator().broadcast(&late, sizeof late, 0);
    return late;
  }

  RankContext& context_;
  PlanRequest request_;
  MemoryTarget room_;
  std::map<std::int64_t, std::uint64_t> host_bytes_;  // by size
};

}  // namespace

std::vector<std::int64_t> even_micro_batches(std::int64_t global_batch, int ranks) {
  const std::int64_t most = (global_batch - 1) / ranks + 1;
  const auto size_at = [&](std::int64_t k) { return (global_batch - 1) / (ranks * k) + 1; };
  // The first k with which the size is smaller than `size`, which is at least 2.
  const auto next_smaller = [&](std::int64_t size) {
    return (global_batch - 1) / (ranks * (size - 1)) + 1;
  };
  const auto is_exact = [&](std::int64_t size) { return global_batch % (ranks * size) == 0; };
  std::vector<std::int64_t> sizes;
  for (double target = double(most); target >= 0.75; target /= std::sqrt(2.0)) {
    const auto first = std::max<std::int64_t>(1, std::llround(double(most) / target / 1.5));
    const auto last = std::llround(double(most) / target * 1.5) + 1;
    std::int64_t nearest = 0;
    const auto distance = [&](std::int64_t size) {
      // An exact one goes before any other within half a step more.
      constexpr double kPreferred = 1.45;
      return std::abs(std::log(double(size) / target)) +
             (is_exact(size) ? 0.0 : std::log(kPreferred));
    };
    for (std::int64_t k = first; k <= last; k = next_smaller(size_at(k))) {
      if (nearest == 0 || distance(size_at(k)) < distance(nearest)) nearest = size_at(k);
      if (size_at(k) == 1) break;
    }
    sizes.push_back(nearest);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

MicroBatchChoice choose_micro_batch(RankContext& context,
                                    const PlanRequest& request,
                                    const MemoryTarget& room) {
  LOCKSTEP_ASSERT(request.options.micro_batch == 0 && request.options.accumulation == 0);
  return Chooser(context, request, room).choose();
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "parallel/micro_batch_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>

#include "core/base/bytes_words.h"
#include "core/base/error.h"
#include "parallel/batch_plan.h"
#include "parallel/micro_batch_timer.h"

namespace lockstep {
namespace {

/// Measuring ends here: so many sizes in a row that are slower than the fastest by so much, or so
/// many seconds.
constexpr int kSlowerInARow = 2;
constexpr double kSlower = 1.05, kMostSeconds = 60;

class Chooser {
 public:
  Chooser(RankContext& context, const PlanRequest& request)
      : context_(context), request_(request), room_(memory_room(context)) {}

  MicroBatchChoice choose() {
    const std::vector<std::int64_t> sizes = plannable_sizes();
    MicroBatchChoice choice{.recompute = request_.options.recompute, .trials = {}, .room = room_};
    choice.trials = look_at(sizes);
    if (!any_fits(choice.trials) && choice.recompute == Recompute::none) {
      request_.options.recompute = choice.recompute = Recompute::automatic;
      choice.trials = look_at(sizes);
    }
    require_one(choice.trials);
    measure(choice.trials);
    const auto fastest = std::ranges::min_element(choice.trials, {}, &Chooser::seconds_of);
    choice.micro_batch = fastest->micro_batch;
    if (choice.recompute == Recompute::automatic)
      choice.memory_limit = limit_for(choice.micro_batch);
    return choice;
  }

 private:
  static double seconds_of(const MicroBatchTrial& trial) {
    return trial.step_seconds.value_or(HUGE_VAL);
  }

  PlanRequest with(std::int64_t micro_batch) const {
    PlanRequest request = request_;
    request.options.micro_batch = micro_batch;
    return request;
  }

  std::vector<std::int64_t> plannable_sizes() const {
    std::vector<std::int64_t> sizes;
    std::exception_ptr why;
    for (const std::int64_t size :
         even_micro_batches(request_.options.global_batch, request_.ranks))
      try {
        plan_batch(with(size).options, request_.ranks);
        sizes.push_back(size);
      } catch (const ConfigError&) {
        why = std::current_exception();
      }
    if (sizes.empty()) std::rethrow_exception(why);
    return sizes;
  }

  static bool any_fits(const std::vector<MicroBatchTrial>& trials) {
    return std::ranges::any_of(trials, &MicroBatchTrial::fits);
  }

  /// Up to the first that is far too large. A smaller one may take more than one that follows: it
  /// makes more shards, whose sums wait for each other, and may want other packed copies.
  std::vector<MicroBatchTrial> look_at(const std::vector<std::int64_t>& sizes) {
    std::vector<MicroBatchTrial> trials;
    for (const std::int64_t size : sizes) {
      trials.push_back(look_at(size));
      if (!trials.back().fits && trials.back().device_bytes / 2 > limit_for(size)) break;
    }
    return trials;
  }

  MicroBatchTrial look_at(std::int64_t size) {
    const bool may_recompute = request_.options.recompute == Recompute::automatic;
    MicroBatchTrial trial =
        plan(size, may_recompute ? Recompute::none : request_.options.recompute);
    if (trial.fits || !may_recompute) return trial;
    try {
      return plan(size, Recompute::automatic);
    } catch (const OutOfMemory&) {
      return plan(size, Recompute::all);
    }
  }

  MicroBatchTrial plan(std::int64_t size, Recompute recompute) {
    PlanRequest request = with(size);
    request.options.recompute = recompute;
    request.options.memory_limit =
        recompute == Recompute::automatic ? limit_for(size) : std::uint64_t{0};
    const MemoryTable table = plan_memory(context_.backend(), request).table;
    if (request.on_host) host_bytes_[size] = table.planned() - table.on_device();
    const std::uint64_t bytes = table.on_device();
    return {.micro_batch = size,
            .device_bytes = bytes,
            .fits = bytes <= limit_for(size),
            .step_seconds = {}};
  }

  /// Of MemoryTable::on_device(), once the size was planned in any way.
  std::uint64_t limit_for(std::int64_t size) const {
    const std::uint64_t asked =
        request_.options.memory_limit > 0 ? request_.options.memory_limit : ~std::uint64_t{0};
    if (!room_.bytes) return asked;
    const auto host = host_bytes_.find(size);
    const std::uint64_t beside = host == host_bytes_.end() ? 0 : host->second;
    const std::uint64_t room = *room_.bytes - std::min(*room_.bytes, beside);
    return std::max<std::uint64_t>(1, std::min(asked, room));
  }

  void require_one(const std::vector<MicroBatchTrial>& trials) const {
    if (any_fits(trials)) return;
    const MicroBatchTrial& least =
        *std::ranges::min_element(trials, {}, &MicroBatchTrial::device_bytes);
    throw OutOfMemory(
        fmt::format("memory: no micro-batch fits: {} with everything computed again takes {}, {} "
                    "more than there is room for",
                    least.micro_batch,
                    bytes_words(double(least.device_bytes)),
                    bytes_words(double(least.device_bytes - limit_for(least.micro_batch)))),
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
      const std::int64_t rounds = (batch.micro_batches - 1) / request.ranks + 1;
      trial.step_seconds = double(rounds) * time_micro_batch(context_, request);
      slower = *trial.step_seconds > kSlower * best ? slower + 1 : 0;
      best = std::min(best, *trial.step_seconds);
    }
  }

  /// By rank 0's clock.
  bool too_late(std::chrono::steady_clock::time_point begin) const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    bool late = spent.count() > kMostSeconds;
    context_.host_communicator().broadcast(&late, sizeof late, 0);
    return late;
  }

  RankContext& context_;
  PlanRequest request_;
  MemoryRoom room_;
  std::map<std::int64_t, std::uint64_t> host_bytes_;  // beside the device's, where it is the host
};

}  // namespace

std::vector<std::int64_t> even_micro_batches(std::int64_t global_batch, int ranks) {
  const std::int64_t most = (global_batch - 1) / ranks + 1;
  const auto size_at = [&](std::int64_t k) { return (global_batch - 1) / (ranks * k) + 1; };
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
    for (std::int64_t k = first; k <= last; ++k)
      if (nearest == 0 || distance(size_at(k)) < distance(nearest)) nearest = size_at(k);
    sizes.push_back(nearest);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

MicroBatchChoice choose_micro_batch(RankContext& context, const PlanRequest& request) {
  LOCKSTEP_ASSERT(request.options.micro_batch == 0 && request.options.accumulation == 0);
  return Chooser(context, request).choose();
}

}  // namespace lockstep

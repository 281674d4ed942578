// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/simulated_runs.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <map>

#include "core/base/check.h"
#include "core/base/rank_list.h"
#include "core/base/text/number_format.h"
#include "core/host/process_memory.h"
#include "launcher/plan/forecast.h"
#include "launcher/plan/plan_request.h"
#include "launcher/settings/placeholder_data.h"
#include "launcher/simulate/step_timeline.h"
#include "parallel/batch/run_samples.h"

namespace lockstep {
namespace {

using simulation::Expression;
using simulation::RankOrder;
using simulation::SimulationRequest;
using simulation::SimulationResult;
using simulation::Traffic;

/// Ranks whose work a timeline shows.
constexpr int kPicturedRanks = 16;

RankTraffic most_of(const std::vector<Traffic>& ranks, double share) {
  RankTraffic most;
  for (const Traffic& rank : ranks) {
    most.calls = std::max(most.calls, rank.all_calls());
    most.messages = std::max(most.messages, rank.messages);
    most.bytes = std::max(most.bytes, rank.bytes);
    most.network_bytes = std::max(most.network_bytes, rank.network_bytes);
    most.all_messages += rank.messages;
    most.all_bytes += rank.bytes;
  }
  for (std::uint64_t* value : {&most.calls,
                               &most.messages,
                               &most.bytes,
                               &most.network_bytes,
                               &most.all_messages,
                               &most.all_bytes})
    *value = std::uint64_t(double(*value) * share);
  return most;
}

std::string text_of(const simulation::RankEnd& end) {
  if (!end.error) return "waits for ever in " + end.waits_for;
  try {
    std::rethrow_exception(end.error);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

/// One line for each way in which ranks ended but that of a training.
void add_ends(const SimulationResult& result,
              const std::string& order,
              std::vector<std::string>& failures) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t r = 0; r < result.ends.size(); ++r)
    if (result.ends[r].error || !result.ends[r].waits_for.empty())
      ranks[text_of(result.ends[r])].push_back(int(r));
  for (const auto& [text, of] : ranks)
    failures.push_back(fmt::format("{}: {}: {}", order, format_ranks(of), text));
}

void add_loads(const SimulationResult& result,
               const std::string& order,
               std::vector<std::string>& failures) {
  std::uint64_t last = 0;
  for (const auto& [epoch, counts] : result.loads) last = std::max(last, epoch);
  for (const auto& [epoch, counts] : result.loads)
    for (const auto& [times, samples] : counts) {
      if (times == 1 || (times == 0 && epoch == last)) continue;
      failures.push_back(fmt::format(
          "{}: {} samples of epoch {} were loaded {} times", order, samples, epoch + 1, times));
    }
}

void add_sums(const SimulationResult& result,
              const std::string& order,
              std::vector<std::string>& failures) {
  for (const std::string& wrong : result.wrong_sums) failures.push_back(order + ": " + wrong);
  if (result.wrong_sum_count > std::ssize(result.wrong_sums))
    failures.push_back(fmt::format("{}: {} wrong sums in all", order, result.wrong_sum_count));
  if (result.tree == simulation::kUnknown || result.checked_elems == result.expected_elems) return;
  failures.push_back(fmt::format("{}: {} elements were updated from sums, expected {}",
                                 order,
                                 format_count(double(result.checked_elems)),
                                 format_count(double(result.expected_elems))));
}

/// Ranks that call other collectives in `b` than in `a`; of all-reduces, as many as the stop
/// agreement's clock asks for.
std::vector<int> ranks_that_differ(const std::vector<Traffic>& a, const std::vector<Traffic>& b) {
  constexpr auto kTimed = std::size_t(simulation::CollectiveKind::all_reduce);
  std::vector<int> ranks;
  for (std::size_t r = 0; r < a.size(); ++r) {
    auto calls = a[r].calls, others = b[r].calls;
    calls[kTimed] = others[kTimed] = 0;
    if (calls != others) ranks.push_back(int(r));
  }
  return ranks;
}

/// What all ranks met alike is a mistake in the settings, not one that was found.
void rethrow_common_error(const SimulationResult& result) {
  for (const simulation::RankEnd& end : result.ends)
    if (!end.error || text_of(end) != text_of(result.ends.front())) return;
  std::rethrow_exception(result.ends.front().error);
}

class Simulator {
 public:
  explicit Simulator(SimulateFlags& flags) : flags_(flags) {
    const PlanRequest plan =
        request_for(flags.train, open_placeholder(flags.train), flags.ranks.back(), false);
    base_.model = plan.model;
    base_.loss = plan.loss;
    base_.options = plan.options;
    base_.options.checkpoint = {};
    base_.options.augmentation = {};
    base_.options.distillation = {};
    base_.options.init.clear();
    base_.options.log_every = 0;
    base_.samples = plan.data.train->spec();
    base_.dataset_size = plan.data.train->size();
    base_.options.steps = total_steps(base_.options, base_.dataset_size);
    base_.options.epochs = 0;
    base_.options.samples = 0;
    base_.dataset_size = std::max(base_.dataset_size, base_.options.global_batch);
    base_.cluster.device.peaks = peaks_of(flags.rate, base_.options.precision);
    base_.cluster.device.spread = flags.spread;
    apply(flags.time, base_.cluster.device);
    base_.cluster.network = flags.network;
    base_.cluster.seed = base_.options.seed;
  }

  SimulatedRuns run(int ranks) {
    SimulationRequest request = base_;
    request.cluster.ranks = ranks;
    request.cluster.traces_sums = flags_.traces_sums;
    const bool asked = !flags_.timeline.empty() || !flags_.page.empty();
    const bool pictured = asked && ranks == flags_.ranks.back();
    for (int r = 0; pictured && r < std::min(ranks, kPicturedRanks); ++r)
      request.pictured_ranks.push_back(r);
    SimulatedRuns runs;
    runs.ranks = ranks;
    runs.hosts = (ranks - 1) / flags_.network.ranks_per_host + 1;
    forget_peak_resident();
    const SimulationResult by_time = simulation::simulate(request);
    rethrow_common_error(by_time);
    take(request, by_time, runs);
    check(by_time, "by time", runs);
    if (runs.failures.empty()) predict(request, by_time, runs);
    if (pictured && runs.failures.empty()) runs.timeline = last_step_of(by_time);
    request.pictured_ranks.clear();
    request.cluster.order = RankOrder::random;
    for (std::int64_t i = 0; i < flags_.arrival_orders && runs.failures.empty(); ++i) {
      request.cluster.order_seed = base_.cluster.seed + std::uint64_t(i);
      const SimulationResult result = simulation::simulate(request);
      const std::string order = fmt::format("random order {}", request.cluster.order_seed);
      check(result, order, runs);
      if (const std::vector<int> others = ranks_that_differ(by_time.all, result.all);
          !others.empty())
        runs.failures.push_back(fmt::format(
            "{}: {} called other collectives than by time", order, format_ranks(others)));
      ++runs.orders;
    }
    return runs;
  }

 private:
  static void check(const SimulationResult& result, const std::string& order, SimulatedRuns& runs) {
    const std::size_t before = runs.failures.size();
    add_ends(result, order, runs.failures);
    if (runs.failures.size() > before) return;  // what follows would be its consequences
    add_loads(result, order, runs.failures);
    add_sums(result, order, runs.failures);
  }

  static void take(const SimulationRequest& request,
                   const SimulationResult& result,
                   SimulatedRuns& runs) {
    runs.wall_s = result.wall_s;
    runs.peak_bytes = result.peak_bytes;
    runs.startup_s = result.startup_s;
    runs.startup = most_of(result.startup, 1);
    std::vector<Traffic> in_steps;
    for (std::size_t r = 0; r < result.all.size(); ++r)
      in_steps.push_back(result.all[r] - result.startup[r]);
    const std::size_t steps = result.steps.size();
    runs.steps = std::int64_t(steps);
    if (steps > 0) runs.step = most_of(in_steps, 1.0 / double(steps));
    // The first step has none before it whose end it could wait for.
    const std::size_t first = steps > 1 ? 1 : 0;
    if (steps > 0)
      runs.step_s = (result.steps.back().end - result.steps[first].begin) / double(steps - first);
    if (runs.step_s > 0) runs.samples_per_s = double(request.options.global_batch) / runs.step_s;
    runs.min_micro_batches = result.min_micro_batches;
    runs.max_micro_batches = result.max_micro_batches;
    runs.sums_checked = result.tree != simulation::kUnknown;
    runs.summed_elems = result.checked_elems;
    runs.parameter_elems = result.parameter_elems;
    runs.tree = result.tree;
  }

  void predict(const SimulationRequest& request,
               const SimulationResult& by_time,
               SimulatedRuns& runs) {
    runs.prediction = predict_times(request, by_time, flags_.time.repeats);
    if (flags_.time.times && runs.prediction.measured_kernels == 0 &&
        !flags_.time.times->seconds.empty())
      throw ConfigError(
          fmt::format("--kernel-times {}: none of the {} kernels of this training is in it, as {}",
                      flags_.time.file,
                      runs.prediction.missing_kernels,
                      runs.prediction.first_missing),
          "measure the same model, micro-batch and precision with train --profile --ranks 1");
    if (!has_one_rank_) one_rank_s_ = step_of_one_rank(request, flags_.time.repeats);
    has_one_rank_ = true;
    if (one_rank_s_ && runs.prediction.step_s.median > 0)
      runs.prediction.efficiency = *one_rank_s_ / (runs.ranks * runs.prediction.step_s.median);
  }

  SimulateFlags& flags_;
  SimulationRequest base_;
  bool has_one_rank_ = false;
  std::optional<double> one_rank_s_;
};

}  // namespace

std::vector<SimulatedRuns> simulate_all(SimulateFlags& flags) {
  Simulator simulator(flags);
  std::vector<SimulatedRuns> all;
  for (const int ranks : flags.ranks) {
    all.push_back(simulator.run(ranks));
    if (all.back().tree != all.front().tree)
      all.back().failures.push_back(
          fmt::format("gradients are summed in another order than on {} ranks", all.front().ranks));
  }
  return all;
}

}  // namespace lockstep

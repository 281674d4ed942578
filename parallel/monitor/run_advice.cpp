// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/run_advice.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "core/base/parameter_names.h"
#include "core/base/rank_list.h"
#include "parallel/monitor/straggler_scores.h"

namespace lockstep {
namespace {

/// A record that takes longer to be reported than this meets slow storage.
constexpr double kSlowRecordSeconds = 0.02;
/// Steps shorter than this, of which much is taking part, are too small for several ranks.
constexpr double kShortStepSeconds = 0.002;
constexpr double kMuchOfAStep = 0.3;
constexpr std::int64_t kSmallBucketBytes = 256 * 1024, kGoodBucketBytes = 4 * 1024 * 1024;
constexpr std::int64_t kManyBuckets = 4;
/// A GPU for which the processor waits less than this is not kept busy.
constexpr double kHardlyWaits = 0.05;
constexpr double kMaxOfAStep = 0.5;
constexpr int kMaxWorkers = 64;
/// What a remedy aims at: a fraction of what is worth a word.
constexpr double kNegligible = kWorthwhile / 10;

int percent(double share) { return int(std::lround(100 * share)); }

/// The first of 1, 2, 5, 10, 20, 50, ... that is not below `least`, but for rounding: as exact as
/// what it comes from.
std::int64_t round_number_from(double least) {
  constexpr std::int64_t kMax = 1'000'000'000'000;
  for (std::int64_t power = 1; power < kMax; power *= 10)
    for (const std::int64_t digit : {1, 2, 5})
      if (double(digit * power) >= 0.999 * least) return digit * power;
  return kMax;
}

class Adviser {
 public:
  explicit Adviser(const RunFacts& facts) : f_(facts), own_(facts.breakdowns.front().breakdown) {}

  std::vector<Advice> all() const {
    std::vector<Advice> found;
    for (const auto rule : {&Adviser::cpu_oversubscribed,
                            &Adviser::data_wait,
                            &Adviser::slow_rank,
                            &Adviser::communication,
                            &Adviser::logging,
                            &Adviser::checkpoint,
                            &Adviser::launches})
      if (auto advice = (this->*rule)(); advice && advice->gain >= min_gain(f_))
        found.push_back(*std::move(advice));
    std::ranges::stable_sort(found, std::greater{}, &Advice::gain);
    if (found.size() > kMaxAdvice) found.resize(kMaxAdvice);
    return found;
  }

 private:
  /// What every rank loses in `part`.
  double least(TimePart part) const {
    double share = 1;
    for (const RankTimeBreakdown& rank : f_.breakdowns)
      share = std::min(share, rank.breakdown.share(part));
    return share;
  }
  /// On rank 0's host.
  int host_ranks() const {
    return int(
        std::ranges::count(f_.breakdowns, f_.breakdowns.front().host, &RankTimeBreakdown::host));
  }
  double step_seconds() const { return own_.total / double(f_.steps); }
  /// So that the ranks' own times say little: a group of ranks shares too few processors.
  bool is_oversubscribed() const {
    return !f_.on_gpu &&
           std::ranges::any_of(f_.oversubscribed, [](const OversubscribedRanks& group) {
             return 1 - double(group.cpus) / double(group.ranks.size()) >= kWorthwhile;
           });
  }
  bool has_slow_rank() const {
    return f_.slowest_rank >= 0 && f_.slowest_score >= StragglerScores::kSlow;
  }

  std::optional<Advice> cpu_oversubscribed() const {
    if (!is_oversubscribed()) return std::nullopt;
    const OversubscribedRanks& worst =
        *std::ranges::max_element(f_.oversubscribed, {}, [](const OversubscribedRanks& c) {
          return double(c.ranks.size()) / c.cpus;
        });
    const bool all = worst.ranks.size() == f_.breakdowns.size();
    return Advice{
        AdviceCause::cpu_oversubscribed,
        fmt::format("{} on {} share {} processor{}",
                    format_ranks(worst.ranks),
                    worst.host,
                    worst.cpus,
                    worst.cpus == 1 ? "" : "s"),
        "each may use only the processors that the others use as well",
        all ? fmt::format("give each rank a core of its own (mpirun --bind-to core), or `ranks` {}",
                          worst.cpus)
            : "give each rank a core of its own: mpirun --bind-to core --map-by core",
        1 - double(worst.cpus) / double(worst.ranks.size())};
  }

  std::optional<Advice> data_wait() const {
    const double share = least(TimePart::data);
    if (!(f_.loader_samples_per_s > 0)) return std::nullopt;
    const double needed = f_.samples_per_s / std::max(1 - own_.share(TimePart::data), 0.01);
    Advice advice{AdviceCause::data_wait,
                  fmt::format("training waited {}% of the time for data", percent(share)),
                  fmt::format("{:.0f} samples/s are needed, and the loaders could deliver {:.0f}",
                              needed,
                              f_.loader_samples_per_s),
                  "",
                  share};
    const double ranks = double(f_.breakdowns.size());
    if (f_.loader_workers > 0) {
      const double of_one = f_.loader_samples_per_s / (f_.loader_workers * ranks);
      const int workers =
          int(std::clamp(std::ceil(needed / ranks / of_one), 1.0, double(kMaxWorkers)));
      advice.evidence = fmt::format(
          "a worker delivers {:.0f} samples/s, {:.0f} a rank are needed", of_one, needed / ranks);
      if (workers > f_.loader_workers) advice.remedy = fmt::format("`workers` {}", workers);
    } else {
      advice.evidence += "; the training thread loads by itself";
      advice.remedy = "`workers` 1";
    }
    const int idle = f_.host_cpus - host_ranks();
    if (f_.free_cpus == 0 && idle > 0)
      advice.remedy += fmt::format(
          "{}the ranks are bound to their own cores, and {} of the host's are idle: start them "
          "with mpirun --bind-to none",
          advice.remedy.empty() ? "" : ", and ",
          idle);
    else if (f_.free_cpus == 0)
      advice.remedy = (advice.remedy.empty() ? "" : advice.remedy + ", but ") +
                      std::string(
                          "every core computes already: fewer `ranks`, samples that cost "
                          "less (lockstep pack, less `augment`), or more cores");
    else if (advice.remedy.empty())
      advice.remedy = "samples that cost less (lockstep pack, less `augment`), or faster storage";
    return advice;
  }

  double exchange_share(std::size_t rank) const {
    return f_.breakdowns[rank].breakdown.share(TimePart::exchange);
  }
  /// In which the rank's training thread waited for a core; 0: unknown.
  double queued_share(const RankTimeBreakdown& rank) const {
    return rank.breakdown.total > 0 ? std::min(1.0, rank.queued.value_or(0) / rank.breakdown.total)
                                    : 0;
  }
  static std::string queued_words(const RankTimeBreakdown& rank, double share) {
    return fmt::format("rank {} on {} waited {}% of the time for a core that other threads had",
                       rank.rank,
                       rank.host,
                       percent(share));
  }

  /// The others wait for it in the exchange: longer than it does itself.
  std::optional<Advice> slow_rank() const {
    if (!has_slow_rank() || is_oversubscribed()) return std::nullopt;
    const auto slow = std::size_t(f_.slowest_rank);
    double others = 0;
    for (std::size_t rank = 0; rank < f_.breakdowns.size(); ++rank)
      if (rank != slow) others += exchange_share(rank) / double(f_.breakdowns.size() - 1);
    const double gain = others - exchange_share(slow);
    const double queued = queued_share(f_.breakdowns[slow]);
    const bool loading = f_.slowest_phase == "loading", lacks_core = queued >= gain / 2;
    return Advice{
        AdviceCause::slow_rank,
        fmt::format("rank {} on {} holds the others up: its own work takes {:.2f} times as long as "
                    "theirs, most of it in {}",
                    f_.slowest_rank,
                    f_.slowest_host,
                    (1 - exchange_share(slow)) / std::max(1 - others, 1e-3),
                    f_.slowest_phase),
        fmt::format("the others waited {}% of the time in the exchange, it itself {}%{}",
                    percent(others),
                    percent(exchange_share(slow)),
                    lacks_core ? "; " + queued_words(f_.breakdowns[slow], queued) : ""),
        lacks_core ? "leave its core to it: other processes run there"
        : loading  ? "look at that host's storage and at what else runs there"
                   : "lockstep doctor there: clocks, binding, what else runs on that host",
        gain};
  }

  /// Ranks of one machine that wait for each other since other processes have their cores. The rank
  /// that waits least is the one that the others wait for: they give their cores away meanwhile, so
  /// that their own queues say little.
  std::optional<Advice> oversubscribed(double exchange, const std::string& evidence) const {
    if (f_.machines > 1 || f_.on_gpu) return std::nullopt;
    const RankTimeBreakdown& critical =
        *std::ranges::min_element(f_.breakdowns, {}, [](const RankTimeBreakdown& rank) {
          return rank.breakdown.share(TimePart::exchange);
        });
    const double queued = queued_share(critical);
    if (queued < exchange / 2) return std::nullopt;
    return Advice{AdviceCause::cpu_oversubscribed,
                  queued_words(critical, queued),
                  "the ranks waited for each other in the exchange: " + evidence,
                  "leave the ranks' cores to them: fewer other processes, or fewer `ranks`",
                  std::min(queued, exchange)};
  }

  std::optional<Advice> communication() const {
    if (f_.breakdowns.size() < 2) return std::nullopt;
    // On a GPU it includes waiting for the device.
    const double moving = f_.on_gpu ? 0 : f_.moving_seconds / own_.total;
    const double share = least(TimePart::exchange) + moving;
    const double per_step = share * step_seconds();
    const std::string evidence =
        fmt::format("{:.3g} ms of a step of {:.3g} ms, {:.3g} MB of gradients in {} bucket{}",
                    per_step * 1e3,
                    step_seconds() * 1e3,
                    double(f_.gradient_bytes) / 1e6,
                    f_.buckets,
                    f_.buckets == 1 ? "" : "s");
    const std::int64_t fewer = f_.gradient_bytes / kGoodBucketBytes + 1;
    if (f_.buckets >= kManyBuckets * fewer && f_.gradient_bytes / f_.buckets < kSmallBucketBytes)
      return Advice{AdviceCause::small_buckets,
                    fmt::format("the exchange of gradients takes {}% of the time, and travels in "
                                "many small messages",
                                percent(share)),
                    evidence,
                    "`bucket_mb` auto",
                    share * (1 - double(fewer) / double(f_.buckets))};
    const double taking_part = share + least(TimePart::optimizer) + least(TimePart::other);
    if (!f_.on_gpu && !is_oversubscribed() && step_seconds() < kShortStepSeconds &&
        f_.gradient_bytes < kGoodBucketBytes && taking_part > kMuchOfAStep)
      return Advice{AdviceCause::too_small,
                    fmt::format("the model is too small for {} ranks: {}% of a step is the "
                                "exchange and its overhead",
                                f_.breakdowns.size(),
                                percent(taking_part)),
                    evidence,
                    "`ranks` 1, or a larger `global_batch`",
                    taking_part};
    if (is_oversubscribed()) return std::nullopt;  // they wait for each other
    if (auto advice = oversubscribed(share, evidence)) return advice;
    const bool one_machine = f_.machines == 1;
    return Advice{AdviceCause::communication,
                  fmt::format("training waited {}% of the time for the exchange of gradients{}",
                              percent(share),
                              one_machine ? " between ranks of one host" : ""),
                  evidence,
                  one_machine
                      ? "a larger `global_batch` (more micro-batches a step), or fewer `ranks`: "
                        "inside a host no network takes part"
                      : "a larger `global_batch` (more micro-batches a step), or a faster network",
                  share};
  }

  std::optional<Advice> logging() const {
    const double share = own_.share(TimePart::logging);
    const double of_one = own_[TimePart::logging] / double(std::max<std::int64_t>(1, f_.records));
    const std::string evidence =
        fmt::format("{} records in {} steps, {:.3g} ms each", f_.records, f_.steps, of_one * 1e3);
    const std::int64_t every =
        round_number_from(std::max(50.0, double(f_.log_every) * share / kNegligible));
    const std::string rarer =
        f_.log_every > 0 ? fmt::format("`log_every` {}", every) : "fewer validations: `eval_every`";
    if (of_one > kSlowRecordSeconds)
      return Advice{
          AdviceCause::slow_storage,
          fmt::format("training waited {}% of the time for metrics to be written", percent(share)),
          evidence,
          "`out` on faster storage, or fewer records: " + rarer,
          share};
    return Advice{AdviceCause::logging,
                  fmt::format("logging stalled training {}% of the time", percent(share)),
                  evidence,
                  rarer,
                  share};
  }

  std::optional<Advice> checkpoint() const {
    const double share = own_.share(TimePart::checkpoint), rarer = share / kNegligible;
    const std::string every =
        f_.checkpoint_steps > 0
            ? fmt::format("{}", std::int64_t(std::ceil(double(f_.checkpoint_steps) * rarer)))
            : fmt::format("{}s", std::int64_t(std::ceil(f_.checkpoint_seconds * rarer)));
    const bool periodic = f_.checkpoint_steps > 0 || f_.checkpoint_seconds > 0;
    return Advice{AdviceCause::checkpoint,
                  fmt::format("checkpoints stalled training {}% of the time", percent(share)),
                  fmt::format("{} checkpoints in {:.3g} s, {:.3g} ms stall each",
                              f_.checkpoints,
                              own_.total,
                              own_[TimePart::checkpoint] * 1e3 /
                                  double(std::max<std::int64_t>(1, f_.checkpoints))),
                  periodic ? "save more rarely: `checkpoint_every` " + every
                           : "fewer validations, since the best one is saved: `eval_every`",
                  share};
  }

  /// What else kept the host from handing work over to the GPU.
  double explained_idle() const {
    return own_.share(TimePart::data) + own_.share(TimePart::logging) +
           own_.share(TimePart::checkpoint);
  }

  /// Share of time in which the GPU was idle by its own clock and which nothing else explains; 0
  /// where that is not most of it, since idle time is of logged steps and the time breakdown of
  /// all.
  double unexplained_idle() const {
    const double unexplained = f_.device_idle.value_or(0) - explained_idle();
    return unexplained > explained_idle() ? unexplained : 0;
  }

  std::optional<Advice> launches() const {
    if (!f_.on_gpu) return std::nullopt;
    const double waits = own_.share(TimePart::device_wait), idle = unexplained_idle();
    const double share = own_.share(TimePart::forward) + own_.share(TimePart::backward) +
                         own_.share(TimePart::optimizer);
    // With several ranks the exchange waits for the device, inside backward.
    if (f_.breakdowns.size() == 1 && waits <= kHardlyWaits && share >= kMaxOfAStep)
      return Advice{
          AdviceCause::launches,
          fmt::format("the host spent {}% of the time launching work on the GPU and "
                      "hardly waited for it: the step is host-launch-bound, too small for a GPU",
                      percent(share)),
          fmt::format("it waited {}% of the time", percent(waits)) +
              (f_.device_idle ? fmt::format("; between phases the GPU was idle {}% of the time",
                                            percent(*f_.device_idle))
                              : ""),
          "a larger `micro_batch`",
          share};
    return Advice{
        AdviceCause::launches,
        fmt::format("the GPU was idle {}% of the time, and data, metrics and snapshots "
                    "explain about {}% of it: the step is host-launch-bound, too small for a GPU",
                    percent(f_.device_idle.value_or(0)),
                    percent(explained_idle())),
        "by its own clock, between the phases of logged steps",
        f_.log_every == 1 ? "log more rarely (`log_every` 50), then a larger `micro_batch`"
                          : "a larger `micro_batch`, with `global_batch`",
        idle};
  }

  const RunFacts& f_;
  const TimeBreakdown& own_;
};

}  // namespace

std::string_view name_of(AdviceCause cause) {
  constexpr std::array<std::string_view, 10> kNames{"data_wait",
                                                    "slow_rank",
                                                    "crowded",
                                                    "small_buckets",
                                                    "too_small",
                                                    "communication",
                                                    "logging",
                                                    "slow_storage",
                                                    "checkpoint",
                                                    "launches"};
  return kNames[std::size_t(cause)];
}

double min_gain(const RunFacts& facts) {
  return std::max(kWorthwhile, kStandardErrors * facts.step_error);
}

std::vector<Advice> advise_run(const RunFacts& facts) {
  if (facts.breakdowns.empty() || facts.steps < kMinSteps ||
      facts.breakdowns.front().breakdown.total < kShortestRun)
    return {};
  std::vector<Advice> all = Adviser(facts).all();
  for (Advice& advice : all) advice.remedy = name_parameters(advice.remedy);
  return all;
}

}  // namespace lockstep

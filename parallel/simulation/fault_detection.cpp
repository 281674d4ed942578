// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/fault_detection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/random.h"
#include "lockstep/error.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/monitor/straggler_scores.h"
#include "parallel/monitor/work_message.h"
#include "parallel/simulation/simulated_watch.h"
#include "parallel/watchdog/failure_report.h"

namespace lockstep::simulation {
namespace {

constexpr double kWarmUp = 1;      // seconds of health before the first fault
constexpr double kAfterwards = 2;  // in which a fault that has passed could still be found

std::vector<int> hosts_of(int ranks, int ranks_per_host) {
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r / ranks_per_host);
  return hosts;
}

/// Runs watchdogs through faults that come and go.
class FaultyWatch {
 public:
  explicit FaultyWatch(const DetectionRequest& request)
      : request_(request),
        random_(random_key(request.seed, "watchdogs"), std::uint64_t(request.faults[0].at)),
        watch_(hosts_of(request.ranks, request.ranks_per_host),
               watch::HeartbeatTree::kFanOut,
               request.limits,
               1 + random_.below(1'000'000)),
        hits_(std::size_t(request.ranks)),
        freezes_(hits_.size()),
        cuts_(hits_.size()) {
    for (int r = 0; r < request.ranks; ++r) {
      watch_[r].note.stage = request.stage;
      watch_[r].note.step = request.step;
    }
    watch_.pass(kWarmUp + random_.uniform() * kBeatSeconds);
    begin_ = request.faults[0].at - watch_.time();
    last_change_ = healthy_since_ = now();
  }

  Detection run() {
    while (!is_settled()) {
      const double next = next_change();
      if (now() < quiet_at())
        watch_.pass(std::max(std::min(next, quiet_at()) - now(), 0.0) + kInstant);
      else
        begin_ += std::max(next - now(), 0.0) + kInstant;  // who has noticed nothing will not
      change();
    }
    Detection detection;
    detection.met = met_;
    detection.over_at = now();
    if (watch_.verdict())
      conclude(detection);
    else if (launcher_saw_)
      conclude_for_launcher(detection);
    else
      detection.over_at = active_ > 0 ? PlantedFault::kForEver : healthy_since_;
    if (launcher_died_at_) {
      detection.launcher_died = true;
      if (!detection.verdict) detection.over_at = *launcher_died_at_;
    }
    return detection;
  }

 private:
  static constexpr double kInstant = 1e-6;  // times are sums of ticks, of days
  // mpirun says of a rank that a signal ended what a shell says.
  static constexpr int kKilled = 128 + 9;

  double now() const { return begin_ + watch_.time(); }
  bool is_settled() const {
    return watch_.is_over() || launcher_saw_ || (launcher_died_at_ && watch_.is_deserted()) ||
           now() >= give_up();
  }
  /// After which no limit is left that could be exceeded, until something changes.
  double quiet_at() const {
    const WatchLimits& limits = request_.limits;
    const double longest = std::max({limits.training_s, limits.start_s, limits.evaluation_s});
    return last_change_ + 3 * longest + 60;
  }
  /// After which nothing can be expected any more. A fault that ends is waited for.
  double give_up() const {
    if (active_ == 0 && met_ > 0) return healthy_since_ + kAfterwards;
    double last = quiet_at();
    for (std::size_t i = 0; i < met_; ++i) {
      const double end = request_.faults[i].end();
      if (halts(request_.faults[i].kind) && end < PlantedFault::kForEver)
        last = std::max(last, end + kInstant);
    }
    return last;
  }

  /// The next fault's begin or the end of one, or when to give up.
  double next_change() const {
    double next = give_up();
    if (const PlantedFault* fault = coming()) next = std::min(next, fault->at);
    for (std::size_t i = 0; i < met_; ++i)
      if (halts(request_.faults[i].kind) && request_.faults[i].end() > last_end_)
        next = std::min(next, request_.faults[i].end());
    return next;
  }
  const PlantedFault* coming() const {
    return met_ < request_.faults.size() ? &request_.faults[met_] : nullptr;
  }

  void change() {
    if (watch_.is_over()) return;
    for (; coming() != nullptr && coming()->at <= now() + kInstant; ++met_)
      if (halts(coming()->kind)) begin(*coming());
    for (std::size_t i = 0; i < met_; ++i) {
      const PlantedFault& fault = request_.faults[i];
      if (halts(fault.kind) && fault.end() > last_end_ && fault.end() <= now() + kInstant)
        end(fault);
    }
    last_end_ = now() + kInstant;
    // mpirun sees the exit of a process whether or not another rank lives that could.
    if (first_death_ && watch_.is_deserted()) launcher_saw_ = first_death_;
  }

  std::vector<int> ranks_of(const PlantedFault& fault) const {
    return ranks_hit(fault, request_.ranks, request_.ranks_per_host);
  }

  void begin(const PlantedFault& fault) {
    if (active_++ == 0) wait_for(fault);
    last_change_ = now();
    if (ends_launcher(fault) && !launcher_died_at_) launcher_died_at_ = fault.at;
    if (fault.kind == FaultKind::rank_dies && !first_death_) first_death_ = met_;
    for (const int r : ranks_of(fault)) {
      ++hits_[std::size_t(r)];
      switch (fault.kind) {
        case FaultKind::rank_dies:
          if (!watch_[r].is_dead) watch_.kill(r);
          break;
        case FaultKind::rank_hangs:
          watch_[r].works = false;
          break;
        case FaultKind::host_is_cut:
          ++cuts_[std::size_t(r)];
          watch_[r].side = 1 + fault.who;
          break;
        default:
          ++freezes_[std::size_t(r)];
          watch_[r].is_frozen = true;
      }
    }
  }

  /// The others come to a collective, in which they wait.
  void wait_for(const PlantedFault& fault) {
    const std::vector<int> hit = ranks_of(fault);
    const bool on_host = fault.kind == FaultKind::host_is_cut;  // where ranks wait for others, too
    for (int r = 0; r < request_.ranks; ++r) {
      if (std::ranges::binary_search(hit, r) && !on_host) continue;
      watch_[r].works = false;
      watch_[r].note.phase = Phase::exchange;
      watch_[r].note.collective = {.name = "exchange", .bytes = 0, .bucket = 0};
      ++watch_[r].note.collectives;
    }
  }

  void end(const PlantedFault& fault) {
    const bool is_cut = fault.kind == FaultKind::host_is_cut;
    if (is_cut || fault.kind != FaultKind::rank_hangs)
      for (const int r : ranks_of(fault)) {
        // Another fault may hold it still.
        const int left = --(is_cut ? cuts_ : freezes_)[std::size_t(r)];
        if (is_cut && left == 0) watch_[r].side = 0;
        if (!is_cut) watch_[r].is_frozen = left > 0;
      }
    last_change_ = now();
    if (--active_ > 0) return;
    healthy_since_ = now();
    for (int r = 0; r < request_.ranks; ++r) {
      watch_[r].works = true;
      watch_[r].note.collective = {};
    }
  }

  void conclude(Detection& detection) const {
    const Verdict& verdict = *watch_.verdict();
    detection.verdict = verdict;
    const bool died = verdict.kind == Verdict::Kind::died;
    detection.exit_code = died ? kKilled : describe(verdict, {}).exit_code;
    detection.detected_at = detection.over_at;
    for (int r = 0; r < request_.ranks; ++r) {
      const SimulatedWatch::Rank& rank = watch_[r];
      if (rank.ended_at < 0 || hits_[std::size_t(r)] > 0) continue;
      detection.detected_at = std::min(detection.detected_at, begin_ + rank.ended_at);
      if (rank.accused < 0 || hits_[std::size_t(rank.accused)] == 0) ++detection.others_wrong;
    }
    detection.named_fault = fault_of(verdict, detection.detected_at);
  }

  /// Of a death a death, else what hit the rank first.
  std::optional<std::size_t> fault_of(const Verdict& verdict, double until) const {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < met_; ++i) {
      const PlantedFault& fault = request_.faults[i];
      if (!halts(fault.kind) || fault.at > until) continue;
      if (!std::ranges::binary_search(ranks_of(fault), verdict.rank)) continue;
      if (!first) first = i;
      if (verdict.kind == Verdict::Kind::died && fault.kind == FaultKind::rank_dies) return i;
    }
    return first;
  }

  void conclude_for_launcher(Detection& detection) const {
    const PlantedFault& fault = request_.faults[*launcher_saw_];
    detection.verdict = Verdict{.kind = Verdict::Kind::died, .rank = fault.who};
    detection.exit_code = kKilled;
    detection.named_fault = launcher_saw_;
    detection.detected_at = detection.over_at;
  }

  const DetectionRequest& request_;
  RandomStream random_;
  SimulatedWatch watch_;
  std::vector<int> hits_;                                  // by rank, faults that have hit it
  std::vector<int> freezes_, cuts_;                        // ... that hold it now
  std::optional<std::size_t> first_death_, launcher_saw_;  // faults of processes that ended
  std::optional<double> launcher_died_at_;
  double begin_ = 0;  // of the watch's clock
  std::size_t met_ = 0;
  int active_ = 0;  // faults that halt
  double healthy_since_ = 0, last_change_ = 0, last_end_ = -1;
};

}  // namespace

Detection detect(const DetectionRequest& request) { return FaultyWatch(request).run(); }

std::optional<SlowDetection> detect_slow(int ranks,
                                         std::span<const int> slow,
                                         double factor,
                                         double step_s,
                                         double micro_batches,
                                         double spread,
                                         double seconds,
                                         std::uint64_t seed) {
  if (ranks < 2 || step_s <= 0 || seconds <= 0) return std::nullopt;
  StragglerScores scores(std::vector<bool>(std::size_t(ranks), false));
  RandomStream random(random_key(seed, "slow ranks"), 0);
  std::vector<RankWork> work(static_cast<std::size_t>(ranks));
  const double between =
      StopAgreement::seconds_between_messages(ranks) * WorkMessage(0, ranks).turns();
  const auto pass = [&](double of_slow) {
    const double one = step_s * of_slow;
    const auto steps = std::max<std::int64_t>(1, std::int64_t(std::ceil(between / one)));
    for (int r = 0; r < ranks; ++r) {
      const bool is_slow = std::ranges::binary_search(slow, r);
      // The mean of many steps varies less than one.
      const double varies = 1 + spread / std::sqrt(double(steps)) * random.uniform(-1.7f, 1.7f);
      const double batches = micro_batches * double(steps);
      work[std::size_t(r)] = {.loading = 0,
                              .compute = step_s * double(steps) * (is_slow ? of_slow : 1) * varies,
                              .loaded = batches,
                              .computed = batches};
    }
    scores.add(work, steps);
    return one * double(steps);
  };
  // The first window does not count, and the smoothed ones have to be known.
  for (double warm = 0; warm < 4 * StragglerScores::kSmoothing;) warm += pass(1);
  // Who is not named once the smoothed scores have settled will not be, however long it lasts.
  constexpr double kSettled = 20 * StragglerScores::kSmoothing + 2 * StragglerScores::kSlowSeconds;
  constexpr int kSettledPasses = 2 * int(StragglerScores::kSlowSteps);
  double passed = 0;
  for (int i = 0; passed < seconds && (passed < kSettled || i < kSettledPasses); ++i) {
    passed += pass(factor);
    if (scores.news().empty()) continue;
    return SlowDetection{scores.news().front().rank, passed};
  }
  return std::nullopt;
}

}  // namespace lockstep::simulation

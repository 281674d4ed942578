// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/fault_storm.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "launcher/launch/restart_policy.h"
#include "launcher/simulate/slow_outcome.h"
#include "launcher/simulate/storm_outcomes.h"
#include "launcher/simulate/storm_saves.h"
#include "lockstep/error.h"
#include "parallel/simulation/fault_detection.h"

namespace lockstep {
namespace {

using simulation::Detection;
using simulation::FaultKind;
using simulation::FaultScope;
using simulation::PlantedFault;

constexpr double kForEver = PlantedFault::kForEver;
constexpr int kKilled = 128 + 9;  // what the launcher says of a rank that was killed

void add_note(FaultOutcome& outcome, const std::string& note) {
  if (outcome.note.find(note) != std::string::npos) return;  // of an earlier launch
  outcome.note += (outcome.note.empty() ? "" : "; ") + note;
}

/// Of a host whose network is gone, where there is no other host to be cut off from.
bool is_harmless(const PlantedFault& fault, const StormRequest& request) {
  return fault.kind == FaultKind::host_is_cut && request.ranks <= request.ranks_per_host;
}

class Storm {
 public:
  explicit Storm(const StormRequest& request)
      : r_(request),
        saves_(request),
        slow_(request),
        policy_(request.max_restarts, request.backoff_s) {
    for (const PlantedFault& fault : request.faults) {
      if (is_harmless(fault, r_))
        harmless_.push_back({.fault = fault, .note = "there is no other host"});
      else if (simulation::halts(fault.kind))
        halting_.push_back(fault);
    }
  }

  StormResult run() {
    while (now_ < r_.seconds && result_.refused.empty()) {
      const std::int64_t before = saves_.resume_step(), on_disk = saves_.disk_step();
      const double begin = now_;
      const std::int64_t attempts = attempts_++;
      std::optional<Attempt> ended = attempt();
      if (!ended || now_ >= r_.seconds) break;
      ended->first = attempts == 0;
      ended->progress =
          is_progress(saves_.resume_step() > before, saves_.disk_step() > on_disk, now_ - begin);
      decide(*ended);
    }
    conclude();
    return std::move(result_);
  }

 private:
  /// Nothing: the ranks train until the storm is over, or wait for ever.
  std::optional<Attempt> attempt() {
    trains_ = false;
    Attempt came_to{.trained = false};
    std::optional<int> exit_code = launch();
    if (!exit_code) exit_code = start();
    if (!exit_code) {
      came_to.trained = true;
      exit_code = train();
    }
    if (!exit_code) return std::nullopt;
    came_to.exit_code = *exit_code;
    return came_to;
  }

  void decide(const Attempt& attempt) {
    if (launcher_died_) return start_launcher();
    const RestartPolicy::Verdict verdict = policy_.next(attempt);
    if (verdict != RestartPolicy::Verdict::restart) {
      result_.refused =
          fmt::format("{} at {:.2f} h: exit code {}",
                      verdict == RestartPolicy::Verdict::exhausted
                          ? fmt::format("no restart after {} in a row without a newer checkpoint",
                                        r_.max_restarts)
                          : std::string("an end that would come again"),
                      now_ / 3600,
                      attempt.exit_code);
      return;
    }
    const double end = now_ + policy_.pause();
    for (; const PlantedFault* fault = coming(end); ++next_) {
      // A host that is gone for longer is missed at the launch.
      if (simulation::scope_of(fault->kind) == FaultScope::host && fault->end() > end &&
          fault->kind != FaultKind::host_dies)
        break;
      FaultOutcome& outcome = meet(*fault, "a pause");
      outcome.note = "no process was there";
      if (fault->kind == FaultKind::host_dies) replace_host(fault->who, fault->at);
      if (!simulation::ends_launcher(*fault)) continue;
      outcome.note = "the scheduler starts the job again";
      now_ = std::max(now_, fault->at);
      ++next_;
      return start_launcher();
    }
    now_ = end;
  }

  /// The scheduler has: a new launcher, which knows of no restarts before.
  void start_launcher() {
    launcher_died_ = false;
    attempts_ = 0;
    restarts_ += policy_.restarts() + 1;
    policy_ = RestartPolicy(r_.max_restarts, r_.backoff_s);
  }

  int host_of(int rank) const { return rank / r_.ranks_per_host; }

  /// Another takes its place, on which nothing is wrong.
  void replace_host(int host, double at) {
    slow_.replace_host(host, at);
    saves_.lose_memory(host);
    std::erase_if(lasting_, [&](std::size_t i) { return result_.faults[i].fault.who == host; });
  }

  /// The next fault that halts ranks, where it comes before `end`.
  const PlantedFault* coming(double end) const {
    return next_ < halting_.size() && halting_[next_].at < std::min(end, r_.seconds)
               ? &halting_[next_]
               : nullptr;
  }

  FaultOutcome& meet(const PlantedFault& fault, const char* where) {
    const bool is_host = simulation::scope_of(fault.kind) == FaultScope::host;
    if (is_host && fault.kind != FaultKind::host_dies) lasting_.push_back(result_.faults.size());
    result_.faults.push_back({.fault = fault, .met_in = where});
    return result_.faults.back();
  }
  /// By the faults that were met last, from `first` on.
  void end_ranks(double at, std::size_t first) {
    now_ = at;
    for (std::size_t i = first; i < result_.faults.size(); ++i) ends_.push_back({i, at});
  }

  /// Processes start and meet. No watchdog yet: the launcher, and the time to join.
  std::optional<int> launch() {
    const double join_s = r_.limits.join_s > 0 ? r_.limits.join_s : kForEver;
    const double begin = now_;
    double end = begin + r_.launch_s;
    for (const std::size_t i : std::vector(lasting_)) {
      FaultOutcome& outcome = result_.faults[i];
      if (outcome.fault.end() <= begin) continue;
      if (outcome.fault.end() <= end + join_s) {
        end = std::max(end, outcome.fault.end());
        add_note(outcome, "others wait for it");
        continue;
      }
      add_note(outcome, fmt::format("missing after {:g} s", r_.limits.join_s));
      replace_host(outcome.fault.who, end + join_s);
      now_ = end + join_s;
      return int(ExitCode::collective_timeout);
    }
    for (; const PlantedFault* fault = coming(end); ++next_) {
      const std::size_t first = result_.faults.size();
      FaultOutcome& outcome = meet(*fault, "launch");
      const bool dies = fault->kind == FaultKind::rank_dies || fault->kind == FaultKind::host_dies;
      if (!dies && fault->end() <= end + join_s) {
        end = std::max(end, fault->end());
        outcome.note = "others wait for it";
        continue;
      }
      outcome.note = dies ? "the launcher ends the others"
                          : fmt::format("missing after {:g} s", r_.limits.join_s);
      launcher_died_ = simulation::ends_launcher(*fault);
      if (launcher_died_) outcome.note = "the scheduler starts the job again";
      ++next_;
      end_ranks(dies ? std::max(fault->at, begin) : end + join_s, first);
      const bool is_host = simulation::scope_of(fault->kind) == FaultScope::host;
      replace_host(is_host ? fault->who : host_of(fault->who), now_);
      return dies ? kKilled : int(ExitCode::collective_timeout);
    }
    lasting_.clear();  // all have been waited for
    now_ = end;
    return std::nullopt;
  }

  /// Trainer::fit() until the first step: the checkpoint is read, programs are compared and warm
  /// up.
  std::optional<int> start() {
    const StormSaves::Read read = saves_.read(now_);
    if (read.failed) {
      now_ = read.end;
      return int(ExitCode::environment);
    }
    double end = read.end + r_.startup_s;
    while (const PlantedFault* fault = coming(end)) {
      const double at = std::max(fault->at, now_);
      const Met met = halt("start-up", RunStage::start);
      if (met.exit_code) return met.exit_code;
      end += met.until - at;
      if (end == kForEver) return stand_still();
    }
    now_ = end;
    return std::nullopt;
  }

  std::optional<int> train() {
    trains_ = true;
    note_lost_memory();
    done_ = saves_.resume_step();
    note_restart();
    begins_.push_back(now_);
    saves_.begin(now_);
    while (now_ < r_.seconds) {
      saves_.finish(now_);
      const std::int64_t quiet = quiet_steps();
      done_ += quiet;
      now_ += double(quiet) * r_.step_s * slow_.factor(now_);
      double end = now_ + r_.step_s * slow_.factor(now_);
      while (const PlantedFault* fault = coming(end)) {
        const double at = fault->at;
        saves_.finish(at);
        const Met met = halt("training", RunStage::training);
        if (met.exit_code) {
          lose(at, met.first);
          return met.exit_code;
        }
        end += met.until - at;
        if (end == kForEver) {
          lose(at, met.first);  // whoever ends the job for good finds what was saved alone
          return stand_still();
        }
      }
      now_ = end;
      ++done_;
      note_step();
      now_ += saves_.save(done_, now_);
    }
    trained_.push_back({begins_.back(), now_});
    return std::nullopt;
  }

  /// Steps in which nothing else can happen: each is too short to look at.
  std::int64_t quiet_steps() const {
    if (first_waiting_ < result_.faults.size()) return 0;
    double until = r_.seconds;
    if (next_ < halting_.size()) until = std::min(until, halting_[next_].at);
    until = std::min(until, slow_.next_change(now_));
    return std::int64_t(saves_.quiet_steps(done_, now_, r_.step_s * slow_.factor(now_), until));
  }

  std::optional<int> stand_still() {
    now_ = kForEver;
    return std::nullopt;
  }

  struct Met {
    std::optional<int> exit_code;  ///< the ranks have ended
    double until = 0;              ///< otherwise: when they work again
    std::size_t first = 0;         ///< of the outcomes
  };
  Met halt(const char* where, RunStage stage) {
    const std::size_t first = result_.faults.size();
    const Detection found = simulation::detect({.ranks = r_.ranks,
                                                .ranks_per_host = r_.ranks_per_host,
                                                .limits = r_.limits,
                                                .stage = stage,
                                                .step = done_ + 1,
                                                .faults = std::span(halting_).subspan(next_),
                                                .seed = r_.seed});
    for (std::size_t i = 0; i < found.met; ++i) meet(halting_[next_ + i], where);
    next_ += found.met;
    note_detection(found, std::span(result_.faults).subspan(first));
    if (!found.verdict && !found.launcher_died)
      return {.exit_code = {}, .until = found.over_at, .first = first};
    end_ranks(found.over_at, first);
    launcher_died_ = found.launcher_died;
    replace_hosts(found, first);
    return {.exit_code = found.verdict ? found.exit_code : kKilled, .until = 0, .first = first};
  }

  /// That of the named rank, and those that died. What is wrong with other hosts lasts.
  void replace_hosts(const Detection& found, std::size_t first) {
    for (std::size_t i = first; i < result_.faults.size(); ++i)
      if (const PlantedFault& fault = result_.faults[i].fault; fault.kind == FaultKind::host_dies)
        replace_host(fault.who, now_);
    if (found.verdict) replace_host(host_of(found.verdict->rank), now_);
  }

  /// Steps since what was saved last, by outcome `first`.
  void lose(double at, std::size_t first) {
    trained_.push_back({begins_.back(), at});
    saves_.cut_off();
    trains_ = false;
    lose_steps(first);
  }

  void lose_steps(std::size_t outcome) {
    const std::int64_t lost = done_ - saves_.resume_step();
    result_.lost_steps += lost;
    result_.faults[outcome].lost_steps += lost;
    done_ -= lost;
  }
  /// Where hosts were lost since then, the last that had a snapshot among them.
  void note_lost_memory() {
    if (done_ > saves_.resume_step()) lose_steps(result_.faults.size() - 1);
  }

  void note_restart() {
    for (const auto& [outcome, end] : ends_) result_.faults[outcome].restart_s = now_ - end;
    ends_.clear();
  }

  void note_step() {
    for (; first_waiting_ < result_.faults.size(); ++first_waiting_) {
      FaultOutcome& outcome = result_.faults[first_waiting_];
      if (!outcome.next_step_s) outcome.next_step_s = now_ - outcome.fault.at;
    }
  }

  void conclude() {
    if (!trains_) note_lost_memory();
    result_.seconds = r_.seconds;
    result_.kept_steps = done_;
    result_.goodput = double(result_.kept_steps) * r_.step_s / r_.seconds;
    result_.restarts = restarts_ + policy_.restarts();
    result_.saves = saves_.checkpoints();
    result_.failed_saves = saves_.failed();
    result_.lost_saves = saves_.cut_off_checkpoints();
    result_.snapshots = saves_.snapshots();
    std::vector<double> seconds;
    for (const FaultOutcome& outcome : result_.faults)
      if (outcome.detected_s) seconds.push_back(*outcome.detected_s);
    std::ranges::sort(seconds);
    result_.detected = seconds.size();
    if (!seconds.empty()) {
      result_.median_detection_s = seconds[seconds.size() / 2];
      result_.longest_detection_s = seconds.back();
    }
    for (std::vector<FaultOutcome> others :
         {slow_.outcomes(trained_), saves_.take_outcomes(), std::move(harmless_)})
      std::ranges::move(others, std::back_inserter(result_.faults));
    std::ranges::stable_sort(
        result_.faults, {}, [](const FaultOutcome& one) { return one.fault.at; });
    for (const FaultOutcome& outcome : result_.faults) result_.wrongly_named += !outcome.is_right;
  }

  const StormRequest& r_;
  StormSaves saves_;
  SlowRanks slow_;
  RestartPolicy policy_;
  std::vector<PlantedFault> halting_;
  std::vector<FaultOutcome> harmless_;
  StormResult result_;
  double now_ = 0;
  std::size_t next_ = 0;       // of halting_
  std::int64_t attempts_ = 0;  // of this launcher
  int restarts_ = 0;           // of launchers before it, and of those
  bool launcher_died_ = false;
  std::vector<std::size_t> lasting_;  // outcomes of hosts that may be wrong at the next launch
  bool trains_ = false;
  std::int64_t done_ = 0;       // steps that are not lost
  std::vector<double> begins_;  // of training
  std::vector<std::pair<double, double>> trained_;
  // Outcomes that have ended the ranks, which do not train again yet, and when.
  std::vector<std::pair<std::size_t, double>> ends_;
  std::size_t first_waiting_ = 0;  // outcome without a step after it
};

}  // namespace

StormResult run_storm(const StormRequest& request) { return Storm(request).run(); }

}  // namespace lockstep

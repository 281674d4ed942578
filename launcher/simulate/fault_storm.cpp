// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/fault_storm.h"

#include <algorithm>
#include <fmt/format.h>

#include "launcher/launch/restart_policy.h"
#include "launcher/simulate/slow_outcome.h"
#include "launcher/simulate/storm_storage.h"
#include "lockstep/error.h"
#include "parallel/simulation/fault_detection.h"
#include "parallel/training/save_timer.h"

namespace lockstep {
namespace {

using simulation::Detection;
using simulation::FaultKind;
using simulation::FaultScope;
using simulation::PlantedFault;

constexpr double kForEver = PlantedFault::kForEver;
constexpr int kKilled = 128 + 9;  // what the launcher says of a rank that was killed

MonotonicClock::time_point clock_of(double seconds) {
  return MonotonicClock::time_point(
      std::chrono::duration_cast<MonotonicClock::duration>(std::chrono::duration<double>(seconds)));
}

const char* word_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::died:
      return "died";
    case Verdict::Kind::failed:
      return "failed";
    case Verdict::Kind::frozen:
      return "frozen";
    case Verdict::Kind::stuck:
      return "stuck";
  }
  return "";
}

class Storm {
 public:
  explicit Storm(const StormRequest& request)
      : r_(request),
        storage_(request.faults, request.storage_bytes_per_s),
        policy_(request.max_restarts, request.backoff_s) {
    for (const PlantedFault& fault : request.faults) {
      if (simulation::halts(fault.kind)) halting_.push_back(fault);
      if (fault.factor > 1) slow_.push_back(fault);
    }
    for (const PlantedFault& fault : storage_.faults())
      storage_outcomes_.push_back({.fault = fault});
  }

  StormResult run() {
    while (now_ < r_.seconds && result_.refused.empty()) {
      const std::int64_t before = committed_;
      const std::int64_t attempts = attempts_++;
      std::optional<Attempt> ended = attempt();
      if (!ended || now_ >= r_.seconds) break;
      ended->first = attempts == 0;
      ended->progress = committed_ > before;
      decide(*ended);
    }
    conclude();
    return std::move(result_);
  }

 private:
  struct Write {
    std::int64_t step = 0;
    double end = 0;
    bool fails = false;
  };

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
      meet(*fault, "a pause").note = "no process was there";
    }
    now_ = end;
  }

  /// The next fault that halts ranks, where it comes before `end`.
  const PlantedFault* coming(double end) const {
    return next_ < halting_.size() && halting_[next_].at < std::min(end, r_.seconds)
               ? &halting_[next_]
               : nullptr;
  }

  FaultOutcome& meet(const PlantedFault& fault, const char* where) {
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
      ++next_;
      end_ranks(dies ? std::max(fault->at, begin) : end + join_s, first);
      return dies ? kKilled : int(ExitCode::collective_timeout);
    }
    now_ = end;
    return std::nullopt;
  }

  /// Trainer::fit() until the first step: the checkpoint is read, programs are compared and warm
  /// up.
  std::optional<int> start() {
    double end = now_;
    if (committed_ > 0) {
      const int hosts = (r_.ranks - 1) / r_.ranks_per_host + 1;
      const StormStorage::Transfer read = storage_.move(now_, r_.checkpoint_bytes * hosts);
      note_storage(read, "reading the checkpoint");
      if (read.failed_by) {
        now_ = read.end;
        return int(ExitCode::environment);
      }
      end = read.end;
    }
    end += r_.startup_s;
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
    done_ = committed_;
    note_restart();
    begins_.push_back(now_);
    SaveTimer timer(r_.every_steps, r_.every_seconds, clock_of(now_));
    double saved_at = now_;
    const double stall_s = r_.checkpoint_bytes / r_.ranks / r_.copy_bytes_per_s;
    while (now_ < r_.seconds) {
      finish_write(now_);
      const std::int64_t quiet = quiet_steps(saved_at);
      done_ += quiet;
      now_ += double(quiet) * r_.step_s * factor(now_);
      double end = now_ + r_.step_s * factor(now_);
      while (const PlantedFault* fault = coming(end)) {
        const double at = fault->at;
        finish_write(at);
        const Met met = halt("training", RunStage::training);
        if (met.exit_code) {
          lose(at);
          return met.exit_code;
        }
        end += met.until - at;
        if (end == kForEver) return stand_still();
      }
      now_ = end;
      ++done_;
      note_step();
      if (!timer.due(done_, clock_of(now_)) || write_) continue;
      now_ += stall_s;
      timer.taken(clock_of(now_));
      saved_at = now_;
      const StormStorage::Transfer written = storage_.move(now_, r_.checkpoint_bytes);
      note_storage(written, fmt::format("the save of step {}", done_));
      write_ = {.step = done_, .end = written.end, .fails = written.failed_by.has_value()};
    }
    trained_.push_back({begins_.back(), now_});
    return std::nullopt;
  }

  /// Steps in which nothing else can happen: each is too short to look at.
  std::int64_t quiet_steps(double saved_at) const {
    if (first_waiting_ < result_.faults.size()) return 0;
    double until = r_.seconds;
    if (next_ < halting_.size()) until = std::min(until, halting_[next_].at);
    for (const PlantedFault& fault : slow_)
      for (const double change : {fault.at, fault.end()})
        if (change > now_) until = std::min(until, change);
    if (write_)
      until = std::min(until, write_->end);
    else if (r_.every_seconds > 0)
      until = std::min(until, saved_at + r_.every_seconds);
    double steps = (until - now_) / (r_.step_s * factor(now_)) - 1;
    if (r_.every_steps > 0)
      steps = std::min(steps, double(r_.every_steps - done_ % r_.every_steps - 1));
    return std::int64_t(std::max(steps, 0.0));
  }

  std::optional<int> stand_still() {
    if (trains_) trained_.push_back({begins_.back(), now_});
    now_ = kForEver;
    return std::nullopt;
  }

  struct Met {
    std::optional<int> exit_code;  ///< the ranks have ended
    double until = 0;              ///< otherwise: when they work again
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
    for (std::size_t i = 0; i < found.met; ++i) {
      FaultOutcome& outcome = meet(halting_[next_ + i], where);
      if (found.verdict) take(found, outcome);
      if (i > 0) outcome.note = "while another was being found";
    }
    next_ += found.met;
    if (!found.verdict) {
      result_.faults[first].note =
          found.over_at == kForEver ? "no rank notices" : "over before a limit";
      return {.exit_code = {}, .until = found.over_at};
    }
    end_ranks(found.over_at, first);
    return {.exit_code = found.exit_code};
  }

  static void take(const Detection& found, FaultOutcome& outcome) {
    outcome.named = found.verdict->rank;
    outcome.verdict = word_of(found.verdict->kind);
    outcome.others_wrong = found.others_wrong;
    outcome.is_right = found.is_right && found.others_wrong == 0;
    outcome.detected_s = found.detected_at - outcome.fault.at;
  }

  void lose(double at) {
    trained_.push_back({begins_.back(), at});
    const std::int64_t lost = done_ - committed_;
    result_.lost_steps += lost;
    if (!ends_.empty()) result_.faults[ends_.front().first].lost_steps = lost;
    if (write_) ++result_.lost_saves;
    write_.reset();
    trains_ = false;
  }

  void finish_write(double now) {
    if (!write_ || write_->end > now) return;
    ++(write_->fails ? result_.failed_saves : result_.saves);
    if (!write_->fails) committed_ = write_->step;
    write_.reset();
  }

  double factor(double now) const {
    double most = 1;
    for (const PlantedFault& fault : slow_)
      if (fault.at <= now && now < fault.end()) most = std::max(most, fault.factor);
    return most;
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

  void note_storage(const StormStorage::Transfer& transfer, const std::string& what) {
    const auto add = [&](std::size_t i, const std::string& text) {
      FaultOutcome& outcome = storage_outcomes_[i];
      outcome.met_in = trains_ ? "training" : "start-up";
      outcome.note += (outcome.note.empty() ? "" : "; ") + text;
    };
    if (transfer.stalled_by)
      add(*transfer.stalled_by, fmt::format("{} takes {:.0f} s more", what, transfer.stalled_s));
    if (transfer.failed_by) add(*transfer.failed_by, what + " fails");
  }

  void conclude() {
    result_.seconds = r_.seconds;
    result_.kept_steps = trains_ ? done_ : committed_;
    result_.goodput = double(result_.kept_steps) * r_.step_s / r_.seconds;
    result_.restarts = policy_.restarts();
    std::vector<double> seconds;
    for (const FaultOutcome& outcome : result_.faults)
      if (outcome.detected_s) seconds.push_back(*outcome.detected_s);
    std::ranges::sort(seconds);
    result_.detected = seconds.size();
    if (!seconds.empty()) {
      result_.median_detection_s = seconds[seconds.size() / 2];
      result_.longest_detection_s = seconds.back();
    }
    for (const PlantedFault& fault : slow_)
      result_.faults.push_back(outcome_of_slow(r_, fault, trained_));
    for (FaultOutcome& outcome : storage_outcomes_) {
      if (outcome.note.empty()) outcome.note = "nothing was written or read";
      result_.faults.push_back(std::move(outcome));
    }
    std::ranges::stable_sort(
        result_.faults, {}, [](const FaultOutcome& one) { return one.fault.at; });
    for (const FaultOutcome& outcome : result_.faults) result_.wrongly_named += !outcome.is_right;
  }

  const StormRequest& r_;
  const StormStorage storage_;
  RestartPolicy policy_;
  std::vector<PlantedFault> halting_, slow_;
  std::vector<FaultOutcome> storage_outcomes_;
  StormResult result_;
  double now_ = 0;
  std::size_t next_ = 0;  // of halting_
  std::int64_t attempts_ = 0;
  bool trains_ = false;
  std::int64_t done_ = 0, committed_ = 0;  // steps
  std::optional<Write> write_;
  std::vector<double> begins_;  // of training
  std::vector<std::pair<double, double>> trained_;
  // Outcomes that have ended the ranks, which do not train again yet, and when.
  std::vector<std::pair<std::size_t, double>> ends_;
  std::size_t first_waiting_ = 0;  // outcome without a step after it
};

}  // namespace

StormResult run_storm(const StormRequest& request) { return Storm(request).run(); }

}  // namespace lockstep

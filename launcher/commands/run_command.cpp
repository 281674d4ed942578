// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "core/base/env.h"
#include "core/base/text/number_format.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/run_snapshots.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/launch_site.h"
#include "launcher/launch/process_limits.h"
#include "launcher/launch/regrowth.h"
#include "launcher/launch/restart_policy.h"
#include "launcher/launch/run_flags.h"
#include "launcher/launch/run_hosts.h"
#include "launcher/launch/run_progress.h"
#include "launcher/launch/shm_backing_dir.h"
#include "launcher/launch/supervisor.h"
#include "launcher/output/restart_record.h"
#include "launcher/output/run_folder.h"
#include "launcher/output/run_folder_files.h"
#include "launcher/output/run_lock.h"
#include "launcher/processes/shell_text.h"
#include "launcher/settings/command_line.h"
#include "lockstep/console.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Verdict = RestartPolicy::Verdict;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
 public:
  explicit Run(const RunFlags& flags)
      : flags_(flags),
        output_(flags.train.out + "/" + kTranscript),
        site_(launch_site(flags)),
        policy_(flags.max_restarts, flags.backoff_s) {
    RunFolder::check(out(), existing_folder(flags_.train));
    ranks_ = first_ranks_on(flags_, site_.devices());
    launcher_ = choose_launcher(flags_, site_, ranks_);
    if (launcher_ == Launcher::srun) hosts_.use_nodes(process_variables(), site_.srun);
    if (launcher_ == Launcher::mpirun) check_limits(site_.hosts.empty() ? ranks_ : 1);
    std::error_code ignored;  // the lock says it better
    fs::create_directories(out(), ignored);
    lock_.emplace(out(), RunLock::kSupervisor);
    if (may_go_on()) standing_ = glance_at(out(), standing_);
    saved_step_ = standing_.step;
    open_snapshots();
  }

  int supervise_all() {
    const double trained_before = standing_.trained_s;
    int code = 0;
    Verdict verdict = Verdict::restart;
    if (hosts_.asks_first() && !find_hosts()) code = pause_and_prepare(code);
    while ((verdict == Verdict::restart || verdict == Verdict::move) && !signals_.requested()) {
      const Ending ending = start_once();
      Attempt attempt{.exit_code = ending.exit_code,
                      .stop_requested = ending.stop_requested,
                      .moves = ending.moves,
                      .out_of_grace = ending.out_of_grace,
                      .first = starts_ == 1 || (moved_ && !begun_here_)};
      // A rank that failed before it could stop is a fault.
      const bool heeded =
          ending.exit_code == int(ExitCode::requeue) || ending.exit_code == 128 + SIGUSR1;
      if (!heeded && !ending.fault.text.empty()) attempt.moves = false;
      attempt.trained = !is_starting();
      begun_here_ |= attempt.trained;
      const RunProgress before = standing_;
      snapshots_.tidy();
      if (ending.exit_code == int(ExitCode::replicas_diverged)) snapshots_.drop();
      // Reading every byte of a checkpoint is for those that a restart would begin from.
      const bool over = ending.exit_code == 0 || was_stopped(attempt);
      if (may_go_on()) standing_ = over ? glance_at(out(), before) : whole_in_run(before);
      attempt.progress = has_progress(before, attempt.trained);
      verdict = policy_.next(attempt);
      code = verdict == Verdict::stopped ? int(ExitCode::requeue) : ending.exit_code;
      const bool failed = verdict == Verdict::failed || verdict == Verdict::exhausted;
      const bool saved = ending.exit_code == int(ExitCode::requeue);  // by the ranks, on the disk
      if (failed || verdict == Verdict::stopped) keep_snapshot(saved);
      if (failed) say_share(trained_before);
      report(ending, verdict);  // who failed is said last
      if (failed) return code;
      if (verdict == Verdict::restart && moved_ && !regrew_ && !attempt.trained)
        hosts_.refuse_new(site_.hosts.empty() ? hosts_.all() : site_.hosts);
      moved_ = verdict == Verdict::move;
      if (verdict == Verdict::restart) note_fault(ending);
      const std::vector<Host> hosts = site_.hosts;
      const bool again = verdict == Verdict::restart ||
                         (verdict == Verdict::move && hosts_.watched() && !find_hosts());
      regrew_ = moved_ && site_.hosts == hosts;
      // Where Slurm knows what a rank died of, its node is there.
      asks_hosts_ =
          launcher_ != Launcher::srun || verdict == Verdict::move || !ending.fault.confirmed;
      if (again) code = pause_and_prepare(code);
    }
    if (verdict == Verdict::restart || verdict == Verdict::move) {
      code = int(ExitCode::requeue);
      keep_snapshot(/*saved=*/false);
      say_stopped();
    } else if (verdict == Verdict::done) {
      snapshots_.remove();  // the last checkpoint is on the disk
    }
    say_share(trained_before);
    return code;
  }

 private:
  /// Ranks may be on hosts of which this process sees no memory.
  bool several_hosts() const {
    return !site_.hosts.empty() || launcher_ == Launcher::srun || site_.slurm_allocation;
  }

  void open_snapshots() {
    if (flags_.train.snapshots && snapshots_.open(may_go_on(), several_hosts()))
      standing_ = with_snapshots(standing_, snapshots_.path());
  }

  /// Of the newest start. What the start before it has put into the memory of other hosts is known
  /// by now.
  bool has_progress(const RunProgress& before, bool trained) {
    const std::int64_t saved = glance_at(out(), RunProgress()).step;
    const bool newer_on_disk = saved > std::exchange(saved_step_, saved);
    const double lived_s = unix_seconds() - facts_.started;
    const std::int64_t began = begun_here_ ? last_resumed_step(out()) : -1;
    const bool was_ahead = several_hosts() && began > began_.value_or(began) && lived_;
    if (trained) {
      began_ = began;
      lived_ = lived_s >= kLongEnoughSeconds;
    }
    return was_ahead || is_progress(standing_.step > before.step, newer_on_disk, lived_s);
  }

  /// The newest checkpoint or snapshot that verifies. Checkpoints are not read where a snapshot is
  /// newer by its name, which it has from the moment when it is whole.
  RunProgress whole_in_run(const RunProgress& before) const {
    const std::string folder = snapshots_.path();
    const RunProgress glance = glance_at(out(), before);
    if (snapshots_.newest_step() > glance.step) {
      const RunProgress newest = with_snapshots(RunProgress(), folder);
      if (newest.step > glance.step) return newest;
    }
    return with_snapshots(verify_in(out(), before), folder);
  }

  void keep_snapshot(bool saved) {
    snapshots_.close(saved, begun_here_);
    if (may_go_on()) standing_ = glance_at(out(), standing_);
  }

  /// For the ranks that are started next.
  void note_fault(const Ending& ending) {
    const auto seconds = [](std::chrono::system_clock::time_point time) {
      return std::chrono::duration<double>(time.time_since_epoch()).count();
    };
    constexpr std::size_t kLongest = 1000;  // an environment has little room
    const std::string text = ending.fault.text.substr(0, kLongest);
    facts_ = {.fault = text.empty() ? fmt::format("exit code {}", ending.exit_code) : text,
              .exit_code = ending.exit_code,
              .restart = policy_.restarts(),
              .step = std::max(
                  {ending.fault.step, last_logged_step(out()) + 1, snapshots_.newest_step() + 1}),
              .reported = seconds(ending.reported),
              .ended = seconds(ending.ended)};
  }

  /// One line of our own, between those of the ranks.
  void say(const std::string& text) { output_.out().line("lockstep run: " + text); }

  void say_share(double trained_before) {
    const double elapsed = seconds_since(begun_);
    const double trained = std::max(0.0, standing_.trained_s - trained_before);
    say(fmt::format("{} restarts, {:.1f}% of {} was training that counts",
                    policy_.restarts(),
                    100 * std::min(1.0, trained / elapsed),
                    format_duration(elapsed)));
  }

  Ending start_once() {
    ++starts_;
    if (may_go_on()) snapshots_.save_where_ranks_do_not_see_it(site_.hosts, ranks_);
    history_before_ = history_time(out());
    ChildPlan child = plan_child(launcher_, site_);
    child.output_folder = next_output_folder(out());
    child.inherits_output = launcher_ == Launcher::none;
    child.labelled = launcher_ == Launcher::srun;
    child.grace_s = flags_.grace_s;
    // What all nodes of an allocation have together. Without it a step gets what is on its own.
    if (launcher_ == Launcher::srun && !site_.hosts.empty()) unsetenv("SLURM_GPUS");
    std::vector<std::string> arguments = train_arguments(flags_, goes_on());
    if (launcher_ == Launcher::none) {
      arguments.insert(arguments.end(), {"--ranks", "1"});
    } else {
      const bool bar = !child.labelled && console_kind() == Console::Kind::terminal;
      child.variables["LOCKSTEP_STARTED"] = bar ? "terminal" : "plain";
    }
    facts_.started = unix_seconds();
    // Set in any case: an inherited one is not of this run, and mpirun warns where it lacks what it
    // is to hand on.
    child.variables["LOCKSTEP_RESTARTED"] = starts_ == 1 ? "" : moved_ ? "moved" : to_text(facts_);
    regrowth_.begin(ranks_, seconds_since(begun_));
    site_.survivors = may_outlive(flags_, site_, launcher_, ranks_);
    if (site_.survivors) let_survive(child);
    if (launcher_ != Launcher::none)
      child.noted_end = [this] {
        return is_starting() ? std::nullopt : RunLock::noted_end(out(), RunLock::kRun);
      };
    if (site_.survivors || hosts_.watched())
      child.is_to_move = [this] {
        const bool may_move = hosts_.watched() && !site_.hosts.empty();
        return (may_move && hosts_.is_to_move(site_.hosts, ranks_)) || is_to_regrow();
      };
    child.variables["LOCKSTEP_SURVIVORS"] =
        site_.survivors ? fmt::format("{}:{}", flags_.rank_range->min, policy_.restarts()) : "";
    child.variables["LOCKSTEP_SNAPSHOTS"] = snapshots_.path();
    child.command = launch_command(launcher_, ranks_, site_, arguments, child.output_folder);
    say(fmt::format(
        "starting {} rank{} under {}{}{}",
        ranks_,
        ranks_ == 1 ? "" : "s",
        name_of(launcher_),
        site_.hosts.empty() ? "" : " on " + to_string(site_.hosts),
        standing_.step < 0
            ? ""
            : fmt::format(", from step {}{}",
                          standing_.step,
                          several_hosts() && !snapshots_.path().empty() ? " or later" : "")));
    std::optional<ShmBackingDir> segments;
    if (child.ranks_are_children) segments.emplace(child);
    Ending ending = supervise(child, signals_, output_);
    // mpirun --with-ft says 0 where all ranks were killed at once.
    if (ending.exit_code == 0 && site_.survivors && RunLock::noted_end(out(), RunLock::kRun) != 0) {
      ending.exit_code = int(ExitCode::collective_timeout);
      if (ending.fault.text.empty()) ending.fault.text = "all ranks ended before rank 0 was done";
    }
    if (child.variables["LOCKSTEP_STARTED"] == "terminal") output_.out().pass("\r\033[K");
    return ending;
  }

  void let_survive(ChildPlan& child) {
    child.after_error_s = kSurvivorPatience;
    child.is_starting = [this] { return is_starting(); };
    child.on_survivors = [this](int ranks) {
      policy_.note_survivors();
      begun_here_ = true;
      regrowth_.note_survivors(ranks, seconds_since(begun_));
    };
  }

  bool is_to_regrow() {
    const double now = seconds_since(begun_);
    if (!is_starting()) regrowth_.note_training(now);
    if (!regrowth_.is_due(now)) return false;
    say(fmt::format("{} of {} ranks are left: they stop with a checkpoint, and all continue",
                    regrowth_.ranks_now(),
                    regrowth_.ranks_before()));
    hosts_.move_from(site_.hosts);
    return true;
  }

  const std::string& out() const { return flags_.train.out; }

  /// The flags say what to begin from, other than the newest checkpoint of --out, which --resume
  /// may name as well.
  bool begins_elsewhere() const {
    const std::string& resume = flags_.train.options.checkpoint.resume;
    return flags_.train.force || (!resume.empty() && resume != "auto");
  }

  /// What --out holds is this run's.
  bool may_go_on() const { return begun_here_ || !begins_elsewhere(); }

  /// With --resume auto, whatever the first start began from. The checkpoint that was
  /// named to begin from is given up only for one that is in --out.
  bool goes_on() const {
    return may_go_on() && (!begins_elsewhere() || flags_.train.force || standing_.step >= 0);
  }

  bool is_starting() const { return history_time(out()) == history_before_; }

  void say_stopped() {
    const std::string how =
        begins_elsewhere() ? resume_command("run", out(), flags_.own) : "the same command";
    say(standing_.step < 0
            ? std::string("stopped, before the first checkpoint")
            : fmt::format("stopped; resume the run from step {} with {}", standing_.step, how));
  }

  void report(const Ending& ending, Verdict verdict) {
    if (verdict == Verdict::done) return;
    if (verdict == Verdict::stopped || verdict == Verdict::move) {
      if (ending.exit_code != int(ExitCode::requeue))
        say(fmt::format("the ranks were ended {}",
                        ending.out_of_grace && !ending.starting
                            ? fmt::format("after {:g} s of grace", flags_.grace_s)
                            : std::string("while they started")));
      if (verdict == Verdict::stopped) say_stopped();
      return;
    }
    const ReportedFault& fault = ending.fault;
    output_.err().line(
        fmt::format("lockstep run: the ranks ended with exit code {}; first of them:\n{}{}",
                    ending.exit_code,
                    fault.text.empty() ? "no rank reported why" : fault.text,
                    fault.hint.empty() ? "" : "\nhint: " + fault.hint));
  }

  /// Returns `code`, or 75 where a stop was asked for meanwhile.
  int pause_and_prepare(int code) {
    do {
      const double pause = policy_.pause();
      say(fmt::format("restart {}{}",
                      policy_.restarts(),
                      pause > 0 ? fmt::format(" in {:g} s", pause) : std::string()));
      signals_.wait(pause);
      if (signals_.requested()) return int(ExitCode::requeue);
      if (!hosts_.any() || !asks_hosts_) return code;
    } while (!find_hosts());
    return code;
  }

  /// False where there are too few, which is one more failed attempt. Throws EnvironmentError: that
  /// was the last one.
  bool find_hosts() {
    RunHosts::Found found = hosts_.find([this] {
      signals_.read();
      return signals_.requested();
    });
    if (signals_.requested()) return true;  // nothing is started any more
    if (found.ranks == 0) {
      if (policy_.next({.exit_code = int(ExitCode::environment)}) != Verdict::restart) {
        keep_snapshot(/*saved=*/false);
        throw EnvironmentError(found.why_none);
      }
      say(found.why_none);
      return false;
    }
    site_.cores.count = slots_of(found.hosts);
    site_.hosts = std::move(found.hosts);
    site_.lost_nodes |= !found.all;
    if (launcher_ == Launcher::srun && found.all) site_.hosts.clear();
    ranks_ = found.ranks;
    return true;
  }

  const RunFlags& flags_;
  SupervisorSignals signals_;
  SupervisorOutput output_;
  LaunchSite site_;
  Launcher launcher_ = Launcher::none;
  int ranks_ = 1;
  RunHosts hosts_{flags_, [this](const std::string& text) { say(text); }};
  bool asks_hosts_ = true;  // before a restart
  bool moved_ = false;      // the newest start is on other hosts, or on all ranks again; no fault
  bool regrew_ = false;     // the latter
  RestartPolicy policy_;
  Regrowth regrowth_;
  RunProgress standing_;
  RestartFacts facts_;            // of the fault before the newest start
  std::int64_t saved_step_ = -1;  // of the newest checkpoint on the disk
  // Of the start before the newest: the step that it began from, and whether it lived for long.
  std::optional<std::int64_t> began_;
  bool lived_ = false;
  int starts_ = 0;
  bool begun_here_ = false;  // --out holds what one of our starts has begun
  Clock::time_point begun_ = Clock::now();
  fs::file_time_type history_before_;
  std::optional<RunLock> lock_;
  RunSnapshots snapshots_{flags_.train.out, [this](const std::string& text) { say(text); }};
};

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  env();
  const RunFlags flags = parse_run_flags(arguments);
  if (print_help(flags.help)) return 0;
  return Run(flags).supervise_all();
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <system_error>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/text/number_format.h"
#include "core/io/output_file.h"
#include "launcher/commands/commands.h"
#include "launcher/launch/supervisor.h"
#include "launcher/output/run_lock.h"
#include "launcher/report/page.h"
#include "launcher/settings/command_line.h"
#include "launcher/sweep/sweep_flags.h"
#include "launcher/sweep/sweep_result.h"
#include "launcher/sweep/sweep_runs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "sweep.json";

/// Whether a sweep can have made what `out` holds, perhaps before it was cut off.
bool holds_sweep(const fs::path& out) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(out, error)) {
    const std::string name = entry.path().filename();
    if (name != "runs" && name != RunLock::kSupervisor && name != "report.html" &&
        !name.starts_with("sweep."))
      return false;
  }
  return !error;
}

/// Creates --out and its runs/. Throws ConfigError: it is there and holds anything but a sweep.
void claim_folder(const std::string& out) {
  std::error_code error;
  if (fs::exists(out, error)) {
    LOCKSTEP_CHECK(fs::is_directory(out), ConfigError, "--out {} is not a folder", out);
    if (!holds_sweep(out))
      throw ConfigError(fmt::format("the output folder {} already exists and holds no sweep", out),
                        "choose another --out");
  }
  fs::create_directories(fs::path(out) / "runs", error);
  if (error)
    throw EnvironmentError(
        fmt::format("cannot create the output folder {}: {}", out, error.message()));
}

class Sweep {
 public:
  explicit Sweep(const SweepFlags& flags) : flags_(flags) {
    claim_folder(flags.out);
    lock_.emplace(flags.out, RunLock::kSupervisor);
    for (const Configuration& configuration : flags.configurations) {
      SweepRun& run = runs_.emplace_back();
      run.configuration = configuration;
      run.folder = run_folder(flags.out, configuration);
      run.log = run.folder + ".log";
    }
    read_earlier(fs::path(flags.out) / kRecord, flags, runs_);
    signals_.emplace();
  }

  int run() {
    const std::size_t before = count(SweepRun::State::done);
    announce(fmt::format("{} runs{}{}, into {}",
                         runs_.size(),
                         before > 0 ? fmt::format(", {} of them done before", before) : "",
                         flags_.at_once > 1 ? fmt::format(", {} at once", flags_.at_once) : "",
                         flags_.out));
    write_tables();
    run_all();
    write_tables();
    const std::size_t compared = write_page();
    output_.out().pass(fmt::format("\n{}\n", sweep_text(result_)));
    announce(
        fmt::format("{} of {} runs done; {}/sweep.txt, .csv, .json{}",
                    count(SweepRun::State::done),
                    runs_.size(),
                    flags_.out,
                    compared > 0 ? fmt::format(", report.html of the best {}", compared) : ""));
    output_.finish(1000);
    if (count(SweepRun::State::done) == runs_.size()) return int(ExitCode::done);
    if (stop_requested()) {
      announce("stopped by a signal: the same command continues");
      output_.finish(1000);
      return int(ExitCode::requeue);
    }
    return int(ExitCode::error);
  }

 private:
  void announce(const std::string& text) {
    output_.out().line("lockstep sweep: " + text);
    output_.push();
  }

  bool stop_requested() {
    signals_->read();
    return signals_->requested();
  }

  std::size_t count(SweepRun::State state) const {
    return std::size_t(std::ranges::count(runs_, state, &SweepRun::state));
  }

  void run_all() {
    SweepRuns processes(flags_, *signals_);
    auto next = runs_.begin();
    for (;;) {
      while (!stop_requested() && processes.has_room()) {
        next = std::ranges::find(next, runs_.end(), SweepRun::State::waiting, &SweepRun::state);
        if (next == runs_.end()) break;
        processes.start(*next++);
      }
      if (processes.empty()) return;
      if (const SweepRun* const ended = processes.wait()) {
        try {
          write_tables();
        } catch (
            const EnvironmentError& error) {  // a full disk may have room at the next run's end
          announce(fmt::format("warning: {}", error.what()));
        }
        describe(*ended);
      }
      output_.push();
    }
  }

  void describe(const SweepRun& run) {
    const std::string numbers =
        run.state != SweepRun::State::done
            ? fmt::format("{}{}{}", name_of(run.state), run.error.empty() ? "" : ": ", run.error)
            : metric_words(run);
    announce(fmt::format("{} of {}: {}: {}, {}",
                         count(SweepRun::State::done) + count(SweepRun::State::failed),
                         runs_.size(),
                         configuration_text(run.configuration),
                         numbers,
                         format_duration(run.seconds)));
  }

  std::string metric_words(const SweepRun& run) const {
    const std::optional<double> value = metric_of(run, result_.metric.name);
    if (!value) return fmt::format("no {}", result_.metric.name);
    const bool best = !result_.groups.empty() && result_.groups[0].runs[0] == &run;
    return fmt::format(
        "{} {:.5g}{}", result_.metric.name, *value, best ? " (the best so far)" : "");
  }

  void write_tables() {
    result_ = compare_runs(flags_.metric, runs_);
    const fs::path out = flags_.out;
    io::replace_file(out / kRecord, sweep_json(flags_, result_, runs_));
    io::replace_file(out / "sweep.txt", sweep_text(result_));
    io::replace_file(out / "sweep.csv", sweep_csv(flags_.varied, runs_));
  }

  /// Of the best runs, as many as a page compares. Returns how many.
  std::size_t write_page() {
    std::vector<report::RunRecord> records;
    for (const SweepGroup& group : result_.groups)
      for (const SweepRun* const run : group.runs) try {
          if (records.size() < report::kMaxRuns) records.push_back(report::read_run(run->folder));
        } catch (const DataError& damaged) {
          announce(fmt::format("warning: not in report.html: {}", damaged.what()));
        }
    if (!records.empty())
      io::replace_file(fs::path(flags_.out) / "report.html", report::page_of(records));
    return records.size();
  }

  const SweepFlags& flags_;
  std::optional<RunLock> lock_;
  std::optional<SupervisorSignals> signals_;
  SupervisorOutput output_;
  std::vector<SweepRun> runs_;
  SweepResult result_;
};

}  // namespace

int sweep_command(const std::vector<std::string>& arguments) {
  env();
  const SweepFlags flags = parse_sweep_flags(arguments);
  if (print_help(flags.help)) return 0;
  return Sweep(flags).run();
}

}  // namespace lockstep

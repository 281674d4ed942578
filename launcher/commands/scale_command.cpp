// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/exec/dry_backend.h"
#include "core/io/output_file.h"
#include "kernels/cpu/cpu_backend.h"
#include "launcher/commands/commands.h"
#include "launcher/output/run_lock.h"
#include "launcher/plan/plan_request.h"
#include "launcher/scale/scale_machine.h"
#include "launcher/scale/scale_report.h"
#include "launcher/scale/scale_runs.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/open_data.h"
#include "parallel/session/device_choice.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Creates --out. Throws ConfigError: it is there and holds something.
void claim_folder(const ScaleFlags& flags) {
  std::error_code error;
  if (fs::exists(flags.out, error)) {
    LOCKSTEP_CHECK(fs::is_directory(flags.out), ConfigError, "--out {} is not a folder", flags.out);
    if (!flags.force && !fs::is_empty(flags.out, error))
      throw ConfigError(
          fmt::format("the output folder {} already exists and is not empty", flags.out),
          "choose another --out, or write over it with --force");
  }
  fs::create_directories(fs::path(flags.out) / "runs", error);
  if (error)
    throw EnvironmentError(
        fmt::format("cannot create the output folder {}: {}", flags.out, error.message()));
}

/// What an earlier `lockstep scale` said there.
void remove_results(const ScaleFlags& flags) {
  std::error_code ignored;
  // scale.svg: of a version before scale.html.
  for (const char* name :
       {"scale.txt", "scale.md", "scale.csv", "scale.json", "scale.html", "scale.svg"})
    fs::remove(fs::path(flags.out) / name, ignored);
}

class Scale {
 public:
  explicit Scale(const ScaleFlags& flags)
      : flags_(flags), starter_(flags), experiments_(experiments_of(flags)) {
    describe();
    claim_folder(flags);
    lock_.emplace(flags.out, RunLock::kSupervisor);
    remove_results(flags);
    // Not before: reading data may take long, and a signal then ends the program.
    signals_.emplace();
  }

  int run() {
    std::size_t wanted = experiments_.size() * std::size_t(flags_.repeats);
    announce(fmt::format("{} runs of {} steps under {}, into {}",
                         wanted,
                         flags_.steps,
                         starter_.launcher_name(),
                         flags_.out));
    // Repeats outermost: a machine that grows slower does so for all counts.
    for (int repeat = 1; repeat <= flags_.repeats && !stop_requested(); ++repeat)
      for (std::size_t i = 0; i < experiments_.size() && !stop_requested(); ++i)
        if (!has_failed(int(i))) run_once(int(i), repeat);
    const bool stopped = stop_requested();
    const std::size_t done = std::size_t(std::ranges::count(subject_.runs, "", &ScaleRun::error));
    subject_.complete = done == wanted;
    write();
    output_.out().pass(fmt::format("\n{}\n", scale_text(subject_, result_)));
    announce(fmt::format(
        "{} of {} runs done; {}/scale.txt, .md, .csv, .json, .html", done, wanted, flags_.out));
    if (subject_.complete) return 0;
    for (const ScaleRun& run : subject_.runs)
      if (!run.error.empty())
        throw Error(fmt::format("a run failed: {}", run.error),
                    "the results of the others are kept");
    if (stopped)
      throw Error("stopped by a signal", "the results of the runs that are done are kept");
    return 1;
  }

 private:
  void announce(const std::string& text) { output_.out().line("lockstep scale: " + text); }

  /// Also by a signal that came while they were not read, between two runs.
  bool stop_requested() {
    signals_->read();
    return signals_->requested();
  }

  bool has_failed(int experiment) const {
    return std::ranges::any_of(subject_.runs, [&](const ScaleRun& run) {
      return run.experiment == experiment && !run.error.empty();
    });
  }

  void run_once(int index, int repeat) {
    const Experiment& experiment = experiments_[std::size_t(index)];
    ScaleRun run{
        .experiment = index, .repeat = repeat, .folder = {}, .log = {}, .times = {}, .error = {}};
    run.folder = fmt::format(
        "{}/runs/{}-{}-{}", flags_.out, name_of(experiment.mode), experiment.ranks, repeat);
    run.log = run.folder + ".log";
    run.error = starter_.start(experiment, run.folder, run.log, *signals_, output_);
    if (signals_->requested()) return;  // cut off
    try {
      if (run.error.empty()) run.times = read_run_times(run.folder);
      if (run.error.empty()) subject_.device = read_run_device(run.folder);
    } catch (const DataError& error) {
      run.error = error.what();
    }
    announce(run.error.empty()
                 ? fmt::format("{} of {}: {} {} ranks: {:.3f} ms a step, {:.3f} exposed",
                               repeat,
                               flags_.repeats,
                               name_of(experiment.mode),
                               experiment.ranks,
                               run.times.step_s * 1e3,
                               run.times.exposed_s * 1e3)
                 : "failed: " + run.error);
    subject_.runs.push_back(std::move(run));
    subject_.complete = false;
    write();
  }

  /// Names, and what the cost model asks of the training.
  void describe() {
    const TrainFlags& train = flags_.run.train;
    const bool on_gpus = train.device == "cuda" || usable_gpus(train.device) > 0;
    subject_.model = train.model.name;
    subject_.device = "no run done";
    subject_.repeats = flags_.repeats;
    const LaunchSite& site = starter_.site();
    machine_ = machine_of(flags_, site, on_gpus, hosts_of(flags_, site, process_variables()));
    if (!machine_ && (flags_.hold_out || !flags_.predict.empty()))
      throw ConfigError("scale: no network named that connects several hosts, for the prediction",
                        "--network nvlink, ib, ethernet or a file");
    TrainFlags first = train;
    first.options = options_of(flags_, experiments_.front());
    const PlanRequest request =
        request_for(first, open_data(train), experiments_.front().ranks, !on_gpus);
    subject_.data = request.data.train->describe();
    const std::unique_ptr<Backend> device =
        on_gpus ? std::make_unique<DryBackend>(kGpuTraits) : make_cpu_backend();
    work_ = plan_work(*device, request, kUnknownPeaks).work;
  }

  void write() {
    result_ = evaluate_scale(flags_, subject_.runs, work_, machine_);
    const fs::path out = flags_.out;
    io::replace_file(out / "scale.txt", scale_text(subject_, result_));
    io::replace_file(out / "scale.md", scale_markdown(subject_, result_));
    io::replace_file(out / "scale.csv", scale_csv(result_));
    io::replace_file(out / "scale.json", scale_json(subject_, result_));
    io::replace_file(out / "scale.html", scale_page(subject_, result_));
  }

  const ScaleFlags& flags_;
  ScaleRuns starter_;
  std::vector<Experiment> experiments_;
  std::optional<RunLock> lock_;
  std::optional<SupervisorSignals> signals_;
  SupervisorOutput output_;
  ScaleSubject subject_;
  std::optional<Machine> machine_;
  Workload work_;
  ScaleResult result_;
};

}  // namespace

int scale_command(const std::vector<std::string>& arguments) {
  env();
  const ScaleFlags flags = parse_scale_flags(arguments);
  if (print_help(flags.help)) return 0;
  return Scale(flags).run();
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale_command.h"

#include <filesystem>
#include <iostream>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/exec/dry_backend.h"
#include "core/io/run_log.h"
#include "kernels/cpu/cpu_backend.h"
#include "launcher/open_data.h"
#include "launcher/run_lock.h"
#include "launcher/scale_report.h"
#include "launcher/scale_runs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void announce(const std::string& text) { std::cout << "lockstep scale: " << text << std::endl; }

/// A file in full, or the one before it.
void write_whole(const fs::path& file, std::string_view text) {
  const std::string temporary = file.string() + ".tmp";
  RunLog log(temporary);
  log.write_line(text.substr(0, text.size() - (text.ends_with('\n') ? 1 : 0)));
  log.close();
  std::error_code error;
  if (log.error().empty()) fs::rename(temporary, file, error);
  if (!log.error().empty()) throw EnvironmentError(log.error());
  if (error) throw EnvironmentError(fmt::format("{}: {}", file.string(), error.message()));
}

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
  for (const char* name : {"scale.txt", "scale.md", "scale.csv", "scale.json", "scale.svg"})
    fs::remove(fs::path(flags.out) / name, error);
}

class Scale {
 public:
  explicit Scale(const ScaleFlags& flags)
      : flags_(flags), starter_(flags), experiments_(experiments_of(flags)) {
    describe();
    claim_folder(flags);
    lock_.emplace(flags.out, RunLock::kSupervisor);
  }

  int run() {
    std::size_t wanted = experiments_.size() * std::size_t(flags_.repeats);
    announce(fmt::format("{} runs of {} steps under {}, into {}",
                         wanted,
                         flags_.steps,
                         starter_.launcher_name(),
                         flags_.out));
    // Repeats outermost: a machine that grows slower does so for all counts.
    for (int repeat = 1; repeat <= flags_.repeats && !signals_.requested(); ++repeat)
      for (std::size_t i = 0; i < experiments_.size() && !signals_.requested(); ++i)
        if (!has_failed(int(i))) run_once(int(i), repeat);
    const bool stopped = signals_.requested();
    const std::size_t done = std::size_t(std::ranges::count(subject_.runs, "", &ScaleRun::error));
    subject_.complete = done == wanted;
    write();
    std::cout << "\n" << scale_text(subject_, result_) << "\n" << std::flush;
    announce(fmt::format(
        "{} of {} runs done; {}/scale.txt, .md, .csv, .json, .svg", done, wanted, flags_.out));
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
    run.error = starter_.start(experiment, run.folder, run.log, signals_);
    if (signals_.requested()) return;  // cut off
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
    const bool on_gpus = starter_.site().gpus > 0 || train.device == "cuda";
    subject_.model = train.model.name;
    subject_.device = "no run done";
    subject_.repeats = flags_.repeats;
    machine_.network = flags_.network ? *flags_.network : shared_memory_network();
    // Hosts and allocations give each rank its own core.
    const LaunchSite& site = starter_.site();
    const bool own_cores = flags_.sbatch || site.slurm_allocation || !site.hosts.empty();
    machine_.cores = on_gpus || own_cores ? 0 : site.cores.count;
    PlanRequest request;
    request.data = open_data(train);
    request.options = options_of(flags_, experiments_.front());
    request.options.augmentation.resized_crop = 0;  // the source draws it
    request.ranks = experiments_.front().ranks;
    request.on_host = !on_gpus;
    const data::SampleSpec& samples = request.data.train->spec();
    nn::ModelSpec spec = train.model;
    spec.outputs = samples.classes > 0 ? samples.classes : samples.target.elems();
    request.model = nn::make_model(spec);
    request.loss = make_loss(train, samples);
    subject_.data = request.data.train->describe();
    const std::unique_ptr<Backend> device =
        on_gpus ? std::make_unique<DryBackend>() : make_cpu_backend();
    work_ = plan_work(*device, request, kUnknownPeaks).work;
  }

  void write() {
    result_ = evaluate_scale(flags_, subject_.runs, work_, machine_);
    const fs::path out = flags_.out;
    write_whole(out / "scale.txt", scale_text(subject_, result_));
    write_whole(out / "scale.md", scale_markdown(subject_, result_));
    write_whole(out / "scale.csv", scale_csv(result_));
    write_whole(out / "scale.json", scale_json(subject_, result_));
    write_whole(out / "scale.svg", scale_svg(subject_, result_));
  }

  const ScaleFlags& flags_;
  ScaleRuns starter_;
  std::vector<Experiment> experiments_;
  std::optional<RunLock> lock_;
  SupervisorSignals signals_;
  ScaleSubject subject_;
  Machine machine_;
  std::optional<Workload> work_;
  ScaleResult result_;
};

}  // namespace

int scale_command(const std::vector<std::string>& arguments) {
  env();
  const ScaleFlags flags = parse_scale_flags(arguments);
  if (!flags.help.empty()) {
    std::cout << flags.help << std::flush;
    return 0;
  }
  return Scale(flags).run();
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/run_output.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "core/base/env.h"
#include "core/base/text/number_format.h"
#include "core/base/text/printable.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/preprocessing_file.h"
#include "kernels/cpu/cpu_backend.h"
#include "launcher/advice/balance_format.h"
#include "launcher/output/run_folder_files.h"
#include "launcher/output/run_metadata.h"
#include "launcher/output/step_memory_json.h"
#include "launcher/processes/host_facts.h"
#include "launcher/processes/shell_text.h"
#include "launcher/settings/config_file.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/lr_scaling_format.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/toml_reader.h"
#include "lockstep/error.h"
#include "lockstep/train_options.h"
#include "parallel/replica/algorithm_file.h"
#include "parallel/session/error_report.h"
#include "parallel/session/fault_log.h"
#include "parallel/session/job_internals.h"
#include "parallel/session/stop_signals.h"

namespace lockstep {
namespace {

void print_resume(Console& console, const ResumeRecord& resumed) {
  for (const std::string& line : resumed.skipped_checkpoints)
    console.line(fmt::format("skipped    {}", line));
  console.line(fmt::format("resume     {}{}, {} steps done",
                           resumed.in_memory ? "snapshot in memory, " : "",
                           resumed.path,
                           resumed.step));
  for (const std::string& line : resumed.overridden)
    console.line(fmt::format("changed    {}", line));
  if (!resumed.overridden.empty())
    console.line(
        "           the next checkpoint keeps it; a --resume from before that one needs the flags "
        "again");
}

std::string format_schedule(const LrSchedule& schedule) {
  std::string text = fmt::format("{} rate", name_of(schedule.kind));
  if (schedule.warmup_steps > 0)
    text += fmt::format(", {} steps of warm-up", schedule.warmup_steps);
  else if (schedule.warmup_ratio > 0)
    text += fmt::format(", {:.0f}% of the steps as warm-up", 100 * schedule.warmup_ratio);
  if (schedule.min_lr > 0) text += fmt::format(", at least {}", schedule.min_lr);
  return text;
}

void warn_of_slow_bf16(Job& job, const TrainOptions& options) {
  if (options.precision != Precision::bf16 || job.backend().multiplies_bf16()) return;
  const char* const why = cpu_backend_has_onednn()
                              ? "this processor has neither AVX512_BF16 nor AMX"
                              : "this program is built without oneDNN";
  print_warning(fmt::format("{}: --precision bf16 rounds as asked but computes in fp32, and is "
                            "slower than --precision fp32",
                            why),
                job.rank());
}

void warn_of_unbalanced_ranks(Job& job, const BatchPlan& batch) {
  if (const std::string remedy = format_balance_remedy(batch); !remedy.empty())
    print_warning(fmt::format("{}; {}", format_balance(batch), remedy), job.rank());
}

/// What runs are compared by, of config.toml.
HyperParameters hyper_parameters(const TrainFlags& flags) {
  constexpr std::string_view kTexts[] = {"model", "data", "optimizer", "lr-schedule", "precision"};
  constexpr std::string_view kNumbers[] = {"global-batch",
                                           "micro-batch",
                                           "epochs",
                                           "steps",
                                           "lr",
                                           "lr-reference-batch",
                                           "min-lr",
                                           "warmup-steps",
                                           "momentum",
                                           "weight-decay",
                                           "label-smoothing",
                                           "dropout",
                                           "clip-norm",
                                           "clip-value",
                                           "clip-agc",
                                           "seed"};
  const std::vector<TomlEntry> entries = read_toml(to_toml(flags), "config.toml");
  HyperParameters result;
  const auto add = [&](std::string_view name, bool is_number) {
    HyperParameter& parameter =
        result.emplace_back(HyperParameter{std::string(name), {}, is_number});
    const auto found = std::ranges::find(entries, name, &TomlEntry::key);
    if (found == entries.end()) return;
    const std::string& text = found->values.back();
    if (!is_number)
      parameter.value = text;
    else if (text != "auto")
      parameter.value = to_real_number(text);
  };
  for (const std::string_view name : kTexts) add(name, false);
  for (const std::string_view name : kNumbers) add(name, true);
  return result;
}

void print_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors)
    print_error({"could not write " + error,
                 "training itself is complete; free space, or choose another --out",
                 1},
                0);
}

}  // namespace

RunOutput::RunOutput(Job& job,
                     const TrainRequest& settings,
                     RunFolder& folder,
                     const RunStart& start)
    : job_(job),
      settings_(settings),
      folder_(folder),
      start_(start),
      console_(settings.console),
      progress_(console_),
      profile_(console_, folder) {
  progress_.set_facts(start.facts);
}

void RunOutput::observe(Trainer& trainer) {
  trainer.add_observer(*this);
  // The folder first: what it records must not wait for a slow terminal.
  trainer.add_observer(folder_);
  if (settings_.flags.tensorboard) {
    tensorboard_.emplace(folder_.file("tensorboard"), hyper_parameters(settings_.flags));
    trainer.add_observer(*tensorboard_);
  }
  const auto facts =
      settings_.outlived ? settings_.outlived : parse_restart_facts(env().restarted.value_or(""));
  if (facts) {
    recovery_.emplace(*facts, folder_, console_);
    trainer.add_observer(*recovery_);
  }
  trainer.add_observer(progress_);
  trainer.add_observer(profile_);
}

void RunOutput::on_initial_weights(const io::LoadReport& report) {
  initial_weights_ = report.to_string();
}

void RunOutput::on_start(const ResumeRecord* resumed) {
  folder_.begin(resumed);
  folder_.add_history(history_json(job_, settings_, resumed));
  FaultLog& logs = JobInternals::of(job_).fault_log;
  logs.open_transcript(folder_.file(kTranscript),
                       resumed != nullptr ? RunLog::Open::append : RunLog::Open::empty);
  logs.log().write_line(fmt::format("rank {} of {} on {}, process {}, {}",
                                    job_.rank(),
                                    job_.size(),
                                    host_name(),
                                    getpid(),
                                    job_.backend().device_class()));
  console_.set_copy(&logs.log());
  folder_.write_file("config.toml", to_toml(settings_.flags));
  for (const auto& [name, text] : io::record_texts(start_.data.train->preprocessing()))
    folder_.write_file(name, text);
  folder_.write_file("memory.json", step_memory_json(start_.plan));
  if (const std::string algorithms = algorithms_text(job_.backend()); !algorithms.empty())
    folder_.write_file(kAlgorithmsFile, algorithms);
  folder_.write_file("environment.json",
                     environment_json(job_, settings_, start_.micro_batch_note));
  print_start();
  if (resumed) print_resume(console_, *resumed);
  warn_of_slow_bf16(job_, settings_.flags.options);
  warn_of_unbalanced_ranks(job_, start_.plan.batch);
  if (settings_.flags.options.algorithms == Algorithms::timed &&
      !job_.backend().chooses_algorithms())
    print_warning("--algorithms timed: this device has nothing to choose, and nothing was timed",
                  job_.rank());
}

void RunOutput::print_start() {
  const TrainOptions& options = settings_.flags.options;
  if (!settings_.notice.empty()) console_.line(settings_.notice);
  console_.line(fmt::format("lockstep {}", lockstep_version()));
  console_.line(fmt::format(
      "model      {}, {} parameters{}",
      settings_.flags.model.name,
      format_count(double(start_.parameters.all)),
      start_.parameters.frozen == 0
          ? ""
          : fmt::format(", {} of them frozen", format_count(double(start_.parameters.frozen)))));
  if (!settings_.flags.settings_from.empty())
    console_.line(
        fmt::format("settings   {}, except for the typed flags", settings_.flags.settings_from));
  if (!initial_weights_.empty()) console_.line(fmt::format("start      {}", initial_weights_));
  console_.line(fmt::format("data       {}", format_data(*start_.data.train)));
  const data::SkippedRecords skipped = start_.data.train->skipped_records();
  for (const std::string& what : skipped.first)
    console_.line(fmt::format("skipped    {}", printable(what)));
  if (const std::int64_t more = skipped.count - std::ssize(skipped.first); more > 0)
    console_.line(fmt::format("           and {} more", format_count(double(more))));
  if (start_.data.validation)
    console_.line(fmt::format("validation {}", start_.data.validation->describe()));
  console_.line(fmt::format("batch      {}", start_.plan.batch.to_string()));
  if (!start_.micro_batch_note.empty()) console_.line("           " + start_.micro_batch_note);
  if (options.shards > 0)
    console_.line("           " + format_balanced_ranks(options, start_.plan.batch));
  console_.line(fmt::format(
      "optimizer  {}, {}", to_string(options.optimizer), format_schedule(options.lr_schedule)));
  if (const std::string scaled = format_lr_scaling(options); !scaled.empty())
    console_.line("           " + scaled);
  if (!start_.sharding_note.empty()) console_.line("           " + start_.sharding_note);
  for (const ParameterGroupUse& group : start_.plan.groups)
    console_.line(fmt::format("group      {}", printable(to_string(group))));
  console_.line(fmt::format("device     {}", job_.backend().device_class()));
  if (!job_.device_note().empty()) console_.line(fmt::format("           {}", job_.device_note()));
  std::istringstream timing(job_.backend().timing_note());
  for (std::string line; std::getline(timing, line);)
    console_.line(fmt::format("algorithms {}", line));
  for (const std::string& notice : job_.backend().notices())
    console_.line(fmt::format("slow       {}", notice));
  console_.line(fmt::format("ranks      {} (source: {})", job_.size(), job_.source()));
  console_.line(fmt::format("output     {}", folder_.path()));
  if (env().fault) console_.line(fmt::format("faults     injected: {}", *env().fault));
}

int RunOutput::finish(Trainer& trainer, const TrainSummary& summary) {
  if (tensorboard_)
    if (const std::string error = tensorboard_->finish(); !error.empty()) folder_.add_error(error);
  return summary.stopped ? finish_stopped(summary) : finish_run(trainer);
}

/// The checkpoint is what counts.
int RunOutput::finish_stopped(const TrainSummary& summary) {
  const std::string by =
      *stop_signal_name() != 0 ? fmt::format(" by {}", stop_signal_name()) : std::string();
  console_.line(
      summary.saved
          ? fmt::format("stopped    after step {}{}: resume with {}",
                        summary.steps,
                        by,
                        resume_command("train", folder_.path()))
          : fmt::format(
                "stopped    after step {}{}, but its checkpoint was not written: steps since "
                "the one before are lost",
                summary.steps,
                by));
  JobInternals::of(job_).fault_log.close();
  for (const std::string& error : folder_.finish()) print_warning("could not write " + error, 0);
  return int(summary.saved ? ExitCode::requeue : ExitCode::error);
}

int RunOutput::finish_run(Trainer& trainer) {
  const auto save = [&](const auto& write) {
    try {
      write();
    } catch (const std::exception& error) {
      folder_.add_error(error.what());
    }
  };
  save([&] { trainer.save_weights(folder_.file("model.safetensors")); });
  // Even where the weights could not be written: the other ranks take part.
  if (settings_.flags.options.ema.on())
    save([&] { trainer.save_average(folder_.file(io::kAverageFile)); });
  console_.line(fmt::format("output                 {}", folder_.path()));
  if (const std::string error = JobInternals::of(job_).fault_log.close(); !error.empty())
    folder_.add_error(error);
  const std::vector<std::string> errors = folder_.finish();
  print_errors(errors);
  return int(errors.empty() ? ExitCode::done : ExitCode::error);
}

void open_host_log(Job& job, const std::string& folder) {
  const std::string name = host_log_name(host_name());
  const std::hash<std::string> hash;
  const std::vector<RankMachine> machines =
      gather_records(job.host_communicator(), RankMachine{hash(name), hash(machine_id())});
  FaultLog& logs = JobInternals::of(job).fault_log;
  logs.open_host(
      fmt::format("{}/logs/{}{}.log", folder, name, host_log_suffix(machines, job.rank())),
      job.rank());
  const std::string started = json_object({{"ranks", std::int64_t(job.size())},
                                           {"host", host_name()},
                                           {"process", std::int64_t(getpid())},
                                           {"device", job.backend().device_class()}});
  logs.write_host_line(
      json_object({{"time", std::int64_t(std::time(nullptr))}, {"started", JsonText{started}}}));
}

}  // namespace lockstep

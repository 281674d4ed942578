// SPDX-License-Identifier: Apache-2.0
#include "launcher/train_run.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <unistd.h>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/nn/trace.h"
#include "launcher/auto_micro_batch.h"
#include "launcher/error_meeting.h"
#include "launcher/gpu_watch.h"
#include "launcher/host_facts.h"
#include "launcher/live_facts.h"
#include "launcher/open_data.h"
#include "launcher/out_of_memory.h"
#include "launcher/profile_table.h"
#include "launcher/progress.h"
#include "launcher/rank_stop.h"
#include "launcher/run_folder.h"
#include "launcher/run_origin.h"
#include "launcher/saved_run.h"
#include "launcher/self_start.h"
#include "launcher/shared_folder.h"
#include "launcher/step_memory_json.h"
#include "launcher/tensorboard_file.h"
#include "parallel/batch_plan.h"
#include "parallel/fingerprint.h"
#include "parallel/trainer.h"

namespace lockstep {
namespace {

/// What all ranks learn from rank 0: a text, or the error it met instead.
struct Notice {
  int exit_code = 0;
  char text[4096] = {};
  char hint[512] = {};
};

void fill(char* to, std::size_t capacity, const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), capacity - 1));
}

/// Creates the folder on rank 0 and returns its path everywhere. Where rank 0 fails, every rank
/// throws the same error.
std::string create_folder(Job& job, const TrainFlags& flags, std::unique_ptr<RunFolder>& folder) {
  Notice notice;
  if (job.rank() == 0) {
    try {
      folder = std::make_unique<RunFolder>(flags.out, existing_folder(flags));
      fill(notice.text, sizeof notice.text, folder->path());
    } catch (...) {
      const ErrorReport report = describe(std::current_exception());
      notice.exit_code = report.exit_code;
      fill(notice.text, sizeof notice.text, report.message);
      fill(notice.hint, sizeof notice.hint, report.hint);
    }
  }
  job.host_communicator().broadcast(&notice, sizeof notice, 0);
  if (notice.exit_code != 0) throw Error(notice.text, notice.hint, ExitCode(notice.exit_code));
  return notice.text;
}

struct ParameterCount {
  std::int64_t all = 0, frozen = 0;
};

/// Elements. Throws what the model has against the data's shape, and patterns that freeze nothing.
ParameterCount count_parameters(const ModelFunction& model,
                                const LossFunction& loss,
                                const data::SampleSpec& samples,
                                const std::vector<std::string>& freeze) {
  Builder::Settings settings;
  settings.mode = Mode::evaluation;
  settings.freeze = freeze;
  const Graph graph = trace(model, loss, samples, settings);
  ParameterCount count;
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.kind != ParameterKind::trained) continue;
    count.all += parameter.shape.elems();
    if (parameter.frozen) count.frozen += parameter.shape.elems();
  }
  return count;
}

void print_resume(Console& console, const ResumeRecord& resumed) {
  for (const std::string& line : resumed.passed_over)
    console.line(fmt::format("passed over {}", line));
  console.line(fmt::format("resume     {}, {} steps done", resumed.path, resumed.step));
  for (const std::string& line : resumed.overridden)
    console.line(fmt::format("changed    {}", line));
}

std::string schedule_words(const LrSchedule& schedule) {
  constexpr const char* kKinds[] = {"constant", "linear", "step", "cosine"};
  std::string text = fmt::format("{} rate", kKinds[std::size_t(schedule.kind)]);
  if (schedule.warmup_steps > 0)
    text += fmt::format(", {} steps of warm-up", schedule.warmup_steps);
  if (schedule.min_lr > 0) text += fmt::format(", at least {}", schedule.min_lr);
  return text;
}

void print_start(Console& console,
                 Job& job,
                 const RunSettings& settings,
                 const data::DataSplit& data,
                 const ParameterCount& parameters,
                 const std::string& micro_batch_words,
                 const std::string& folder) {
  const TrainOptions& options = settings.flags.options;
  if (!settings.notice.empty()) console.line(settings.notice);
  console.line(fmt::format("lockstep {}", lockstep_version()));
  console.line(fmt::format(
      "model      {}, {} parameters{}",
      settings.flags.model.name,
      with_thousands(double(parameters.all)),
      parameters.frozen == 0
          ? ""
          : fmt::format(", {} of them frozen", with_thousands(double(parameters.frozen)))));
  if (!options.init.empty()) console.line(fmt::format("start      {}", options.init));
  console.line(fmt::format("data       {}", data.train->describe()));
  if (data.validation) console.line(fmt::format("validation {}", data.validation->describe()));
  console.line(fmt::format("batch      {}", plan_batch(options, job.size()).to_string()));
  if (!micro_batch_words.empty()) console.line("           " + micro_batch_words);
  console.line(fmt::format(
      "optimizer  {}, {}", to_string(options.optimizer), schedule_words(options.lr_schedule)));
  console.line(fmt::format("device     {}", job.backend().device_class()));
  if (!job.device_note().empty()) console.line(fmt::format("           {}", job.device_note()));
  for (const std::string& notice : job.backend().notices())
    console.line(fmt::format("slow       {}", notice));
  console.line(fmt::format("ranks      {}, told by: {}", job.size(), job.source()));
  console.line(fmt::format("output     {}", folder));
  if (env().fault) console.line(fmt::format("faults     played: {}", *env().fault));
}

void warn_of_slow_bf16(Job& job, const TrainOptions& options) {
  if (options.precision != Precision::bf16 || job.backend().multiplies_bf16()) return;
  print_warning(
      "this processor has neither AVX512_BF16 nor AMX: --precision bf16 rounds as asked but "
      "computes in fp32, and is slower than --precision fp32",
      job.rank());
}

/// Does what a run does first, once it is accepted.
class StartObserver final : public TrainObserver {
 public:
  explicit StartObserver(std::function<void(const ResumeRecord*)> action)
      : action_(std::move(action)) {}
  void on_start(const ResumeRecord* resumed) override { action_(resumed); }

 private:
  std::function<void(const ResumeRecord*)> action_;
};

void open_log(const std::string& file, Job& job, bool resumed) {
  job.fault_log().open(file, resumed ? RunLog::Open::append : RunLog::Open::empty);
  job.fault_log().log().write_line(fmt::format("rank {} of {} on {}, process {}, {}",
                                               job.rank(),
                                               job.size(),
                                               host_name(),
                                               getpid(),
                                               job.backend().device_class()));
}

void print_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors)
    print_error({"could not write " + error,
                 "training itself is complete; free space, or choose another --out",
                 1},
                0);
}

/// Rank 0's part after a stop: the checkpoint is what counts.
int finish_stopped(const TrainSummary& summary, RunFolder& folder, Console& console, RunLog& log) {
  const std::string by =
      *stop_signal_name() != 0 ? fmt::format(" by {}", stop_signal_name()) : std::string();
  console.line(
      summary.saved
          ? fmt::format("stopped    after step {}{}: go on with --resume auto --out {}",
                        summary.steps,
                        by,
                        folder.path())
          : fmt::format(
                "stopped    after step {}{}, but its checkpoint was not written: steps since "
                "the one before are lost",
                summary.steps,
                by));
  log.close();
  for (const std::string& error : folder.finish()) print_warning("could not write " + error, 0);
  return int(summary.saved ? ExitCode::requeue : ExitCode::error);
}

/// Rank 0's part after training; whatever fails here must not lose what is still to be written.
int finish_run(Trainer& trainer, RunFolder& folder, Console& console, RunLog& log) {
  try {
    trainer.save_weights(folder.file("model.safetensors"));
  } catch (const std::exception& error) {
    folder.add_error(error.what());
  }
  console.line(fmt::format("output                 {}", folder.path()));
  log.close();
  if (!log.error().empty()) folder.add_error(log.error());
  const std::vector<std::string> errors = folder.finish();
  print_errors(errors);
  return int(errors.empty() ? ExitCode::done : ExitCode::error);
}

PlanRequest plan_request(Job& job,
                         const ModelFunction& model,
                         const LossFunction& loss,
                         const data::DataSplit& data,
                         const TrainFlags& flags) {
  PlanRequest request{.model = model,
                      .loss = loss,
                      .data = data,
                      .options = flags.options,
                      .ranks = job.size(),
                      .on_host = job.backend().memory().pool.empty()};
  request.options.augmentation.resized_crop = 0;  // the source draws it
  return request;
}

/// What a run is made of, once its flags are accepted.
/// Before the collectives that measuring takes, in which ranks with other flags would not be.
void agree_on_measuring(Job& job, const TrainFlags& flags, const data::Dataset& data) {
  const TrainOptions& options = flags.options;
  Fingerprint asked{{"micro-batch", flags.measures_micro_batch ? "auto" : "given"}};
  if (flags.measures_micro_batch)
    asked.insert(asked.end(),
                 {{"global-batch", std::to_string(options.global_batch)},
                  {"memory-limit", std::to_string(options.memory_limit)},
                  {"recompute", std::string(name_of(options.recompute))},
                  {"model", flags.model.name}});
  compare_fingerprints(job.host_communicator(), asked);
  LOCKSTEP_CHECK(!flags.measures_micro_batch || options.global_batch <= data.size(),
                 ConfigError,
                 "batch: global-batch {} is larger than the {} training samples",
                 options.global_batch,
                 data.size());
}

struct RunParts {
  const data::DataSplit& data;
  const ModelFunction& model;
  const LossFunction& loss;
  const ParameterCount& parameters;
  TrainingMemory& memory;
};

int train_in_folder(Job& job, RunSettings& settings, const RunParts& parts) {
  TrainFlags& flags = settings.flags;
  const data::DataSplit& data = parts.data;
  std::unique_ptr<RunFolder> folder;
  const std::string path = create_folder(job, flags, folder);
  check_shared_folder(job.host_communicator(), path);
  flags.options.checkpoint.folder = path + "/checkpoints";
  const std::string micro_batch_words =
      flags.measures_micro_batch
          ? settle_micro_batch(job,
                               plan_request(job, parts.model, parts.loss, data, flags),
                               parts.memory.room_target(),
                               flags)
          : std::string();
  TrainOptions options = flags.options;
  options.augmentation.resized_crop = 0;  // the source draws it
  parts.memory.settle(options);
  const MemoryPlan plan = parts.memory.require_room();
  // On a terminal somebody watches, and waits for nothing else.
  const bool watched = settings.console == Console::Kind::terminal && options.log_every > 0;
  const LiveFacts facts =
      live_facts(job, plan, options.precision, watched, parts.memory.room_target().bytes);
  options.checkpoint.texts = {{"config.toml", to_toml(flags)},
                              {"classes.json", classes_json(*data.train)}};
  options.stop = stop_asked;
  // What the source draws and what a loss is made of, which options do not say.
  options.settings = {{"augment of the source", flags.options.augmentation.to_string()},
                      {"label-smoothing", fmt::format("{}", flags.label_smoothing)}};
  const std::string log_file = fmt::format("{}/logs/rank_{}.log", path, job.rank());
  // Before, an earlier run's log must stay; rank 0 opens its own with the folder.
  options.accepted = [&](bool resumed) {
    if (job.rank() > 0) open_log(log_file, job, resumed);
  };
  std::optional<GpuWatch> gpu_watch;
  if (job.gpu()) {  // on all ranks or on none
    gpu_watch.emplace(GpuWatch::Settings{.device = *job.gpu()});
    gpu_watch->follow(options, job.host_communicator());
  }
  Trainer trainer(job, parts.model, parts.loss, options);

  RunLog& log = job.fault_log().log();
  Console console(settings.console);
  Progress progress(console);
  progress.set_facts(facts);
  std::optional<ProfilePrinter> profile;
  std::optional<TensorboardFile> tensorboard;
  StartObserver start([&](const ResumeRecord* resumed) {
    folder->begin(resumed);
    folder->add_history(history_json(job, settings, resumed));
    open_log(log_file, job, resumed != nullptr);
    console.set_copy(&log);
    folder->write_file("config.toml", to_toml(flags));
    folder->write_file("classes.json", classes_json(*data.train));
    folder->write_file("memory.json", step_memory_json(plan));
    folder->write_file("environment.json", environment_json(job, settings, micro_batch_words));
    print_start(console, job, settings, data, parts.parameters, micro_batch_words, path);
    if (resumed) print_resume(console, *resumed);
    warn_of_slow_bf16(job, settings.flags.options);
  });
  if (folder) {
    trainer.add_observer(start);
    // The folder first: what it records must not wait for a slow terminal.
    trainer.add_observer(*folder);
    if (flags.tensorboard) {
      tensorboard.emplace(folder->file("tensorboard"));
      trainer.add_observer(*tensorboard);
    }
    trainer.add_observer(progress);
    profile.emplace(console, *folder);
    trainer.add_observer(*profile);
  }
  TrainSummary summary;
  try {
    summary = trainer.fit(data);
  } catch (...) {
    console.clear_bar();
    throw;
  }
  if (tensorboard)
    if (const std::string error = tensorboard->finish(); !error.empty()) folder->add_error(error);
  if (folder)
    return summary.stopped ? finish_stopped(summary, *folder, console, log)
                           : finish_run(trainer, *folder, console, log);
  log.close();
  if (!log.error().empty()) print_warning("could not write " + log.error(), job.rank());
  if (!summary.stopped) return 0;
  return int(summary.saved ? ExitCode::requeue : ExitCode::error);
}

}  // namespace

int run_training(Job& job, const RunSettings& asked) {
  RunSettings settings = asked;
  TrainFlags& flags = settings.flags;
  check_launched_ranks(flags, job.size());
  job.open_device(flags.device);
  const data::DataSplit data = open_data(flags);
  const data::SampleSpec& samples = data.train->spec();
  nn::ModelSpec spec = flags.model;
  spec.outputs = samples.classes > 0 ? samples.classes : samples.target.elems();
  const ModelFunction model = nn::make_model(spec);
  const LossFunction loss = make_loss(flags, samples);
  const ParameterCount parameters = count_parameters(model, loss, samples, flags.options.freeze);
  plan_batch(flags.options, job.size());  // before a folder is made
  validate(flags.options);

  agree_on_measuring(job, flags, *data.train);
  TrainingMemory memory(job, plan_request(job, model, loss, data, flags), flags.model.name);
  try {
    return train_in_folder(job, settings, {data, model, loss, parameters, memory});
  } catch (const OutOfMemory&) {
    memory.rethrow_explained();  // the memory of the run is free again
  }
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/train_run.h"

#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/env.h"
#include "core/nn/trace.h"
#include "launcher/advice/out_of_memory.h"
#include "launcher/commands/auto_micro_batch.h"
#include "launcher/commands/auto_sharding.h"
#include "launcher/commands/class_results.h"
#include "launcher/gpu_monitor/gpu_watch.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/output/progress_context.h"
#include "launcher/output/run_output.h"
#include "launcher/output/snapshot_folder.h"
#include "launcher/plan/plan_request.h"
#include "launcher/predict/teacher.h"
#include "launcher/predict/token_bytes.h"
#include "launcher/settings/config_file.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/other_settings.h"
#include "launcher/settings/read_settings.h"
#include "lockstep/trainer.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/error_serialization.h"
#include "parallel/comm/shared_folder.h"
#include "parallel/replica/algorithm_file.h"
#include "parallel/session/error_report.h"
#include "parallel/session/fault_log.h"
#include "parallel/session/job_internals.h"
#include "parallel/session/stop_signals.h"
#include "parallel/session/survivors.h"

namespace lockstep {
namespace {

/// Creates the folder on rank 0 and returns its path everywhere. Where rank 0 fails, every rank
/// throws the same error.
std::string create_folder(Job& job, const TrainFlags& flags, std::unique_ptr<RunFolder>& folder) {
  std::string error;
  if (job.rank() == 0) {
    try {
      folder = std::make_unique<RunFolder>(flags.out, existing_folder(flags));
    } catch (...) {
      error = serialized_error_text(serialize_error(std::current_exception()));
    }
  }
  error = broadcast_string(job.host_communicator(), error);
  if (!error.empty()) throw_serialized_error(nlohmann::json::parse(error));
  return broadcast_string(job.host_communicator(), folder ? folder->path() : std::string());
}

/// Elements. Throws what the model has against the data's shape, and patterns that freeze nothing.
ParameterCount count_parameters(const PlanRequest& request) {
  BuilderSettings settings;
  settings.mode = Mode::evaluation;
  settings.freeze = request.options.freeze;
  const Graph graph = trace(request.model, request.loss, request.data.train->spec(), settings);
  ParameterCount count;
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.kind != ParameterKind::trained) continue;
    count.all += parameter.shape.elems();
    if (parameter.frozen) count.frozen += parameter.shape.elems();
  }
  return count;
}

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
  if (flags.measures_micro_batch) expect_whole_batch(options.global_batch, data.size());
}

/// What a run is made of, once its flags are accepted.
struct RunParts {
  const PlanRequest& request;
  const ParameterCount& parameters;
  TrainingMemory& memory;
};

/// What a run in `folder` adds to the options that were planned.
void complete_options(TrainOptions& options,
                      Job& job,
                      const TrainFlags& flags,
                      const data::SampleSpec& samples,
                      const std::string& folder) {
  options.checkpoint.texts = {{"config.toml", to_toml(flags)}};
  options.stop = stop_requested;
  // What the source draws and what a loss is made of, which options do not say.
  options.settings = {{"augment of the source", flags.options.augmentation.to_string()}};
  const Fingerprint loss = loss_settings(flags, samples);
  options.settings.insert(options.settings.end(), loss.begin(), loss.end());
  // Before, an earlier run's logs must stay.
  options.accepted = [&job, folder](bool) {
    open_host_log(job, folder);
    outlive_deaths(job);
  };
}

/// Bits a byte of the last validation, where they are known; on all ranks.
void follow_bits_per_byte(TrainOptions& options, Job& job, const data::DataSplit& data) {
  if (!data.validation) return;
  options.complete_summary = [&job, complete = options.complete_summary, part = data.validation](
                                 TrainSummary& summary) {
    if (complete) complete(summary);
    if (summary.evaluated)
      summary.val_bits_per_byte = bits_per_byte(summary.val_loss, *part, job.host_communicator());
  };
}

/// The part of the other ranks after training.
int finish_rank(Job& job, const TrainSummary& summary) {
  if (const std::string error = JobInternals::of(job).fault_log.close(); !error.empty())
    print_warning("could not write " + error, job.rank());
  if (!summary.stopped) return 0;
  return int(summary.saved ? ExitCode::requeue : ExitCode::error);
}

/// resolve_micro_batch(). With --shard auto a sharded optimizer goes before recomputation, and
/// sharded gradients come last, as `train` proposes them.
std::string resolve_micro_batch_sharded(Job& job,
                                        PlanRequest request,
                                        const MemoryTarget& room,
                                        TrainFlags& flags) {
  const bool may_shard = flags.chooses_sharding && job.size() > 1 &&
                         flags.options.reduction == Reduction::reproducible;
  if (!may_shard) return resolve_micro_batch(job, request, room, flags);
  const TrainFlags asked = flags;
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer}) {
    request.options.sharding = sharding;
    try {
      std::string note = resolve_micro_batch(job, request, room, flags);
      const bool recomputes = flags.options.recompute != asked.options.recompute;
      if (!recomputes || sharding == Sharding::optimizer) return note;
    } catch (const OutOfMemory&) {  // on all ranks alike
    }
    flags = asked;
  }
  request.options.sharding = Sharding::gradients;
  return resolve_micro_batch(job, request, room, flags);
}

int train_in_folder(Job& job, TrainRequest& settings, const RunParts& parts) {
  TrainFlags& flags = settings.flags;
  std::unique_ptr<RunFolder> folder;
  const std::string path = create_folder(job, flags, folder);
  check_shared_folder(job.host_communicator(), path);
  flags.options.checkpoint.folder = path + "/checkpoints";
  std::optional<RankSnapshotFolder> snapshots;
  if (const std::string in_memory = env().snapshots.value_or("");
      flags.snapshots && !in_memory.empty()) {
    flags.options.checkpoint.snapshot_folder = in_memory;
    snapshots.emplace(in_memory, path);
  }
  const MemoryTarget room = parts.memory.headroom_target();
  PlanRequest request = parts.request;
  request.options = training_options(flags);
  std::string micro_batch_note;
  if (flags.measures_micro_batch) {
    micro_batch_note = resolve_micro_batch_sharded(job, request, room, flags);
    request.options = training_options(flags);
  }
  if (flags.options.shards == kAutoShards) {  // config.toml has the number
    flags.options.shards = plan_batch(flags.options, job.size()).shards;
    request.options = training_options(flags);
  }
  std::string sharding_note;
  if (flags.chooses_sharding) {
    sharding_note = resolve_sharding(job, request, room, flags);
    request.options = training_options(flags);
  }
  TrainOptions& options = request.options;
  parts.memory.resolve(options);
  const MemoryPlan plan = parts.memory.require_headroom();
  // On a terminal a user watches, and waits for nothing else.
  const bool watched = settings.console == Console::Kind::terminal && options.log_every > 0;
  const ProgressContext facts = progress_context(job, plan, options.precision, watched, room.bytes);
  complete_options(options, job, flags, request.data.train->spec(), path);
  std::optional<GpuWatch> gpu_watch;
  if (job.gpu()) {  // on all ranks or on none
    gpu_watch.emplace(GpuWatch::Settings{.device = *job.gpu()});
    gpu_watch->follow(options, job.host_communicator());
  }
  // Otherwise the loss is not the text's alone.
  if (flags.label_smoothing == 0 && flags.class_weights.empty())
    follow_bits_per_byte(options, job, request.data);
  TrainSummary summary;
  const auto run = [&] {
    Trainer trainer(job, request.model, request.loss, options);
    std::optional<RunOutput> output;
    if (folder) {
      output.emplace(
          job,
          settings,
          *folder,
          RunStart{request.data, parts.parameters, plan, facts, micro_batch_note, sharding_note});
      output->observe(trainer);
    }
    try {
      summary = trainer.fit(request.data);
      end_with_deaths(job);
      // Without checkpoints nothing is on the disk yet.
      const bool periodic =
          options.checkpoint.every_steps > 0 || options.checkpoint.every_seconds > 0;
      if (snapshots && summary.saved && (summary.stopped || periodic)) snapshots->set_saved();
    } catch (const OtherSettings& error) {
      throw in_flags(error, flags);
    } catch (...) {
      if (output) output->clear_bar();
      throw;
    }
    if (output) return output->finish(trainer, summary);
    if (options.ema.on() && !summary.stopped) trainer.save_average({});
    return finish_rank(job, summary);
  };
  int code = run();
  // The memory of training is free again.
  if (flags.per_class && all_done(job, code))
    code = write_class_results(job, flags, request.data, path, summary, folder.get());
  if (folder) folder->note_end(code);
  return code;
}

int train(Job& job, const TrainRequest& asked) {
  TrainRequest settings = asked;
  TrainFlags& flags = settings.flags;
  check_launched_ranks(flags, job.size());
  job.open_device(flags.device);
  const bool on_host = job.backend().memory().pool.empty();
  data::DataSplit data = open_data(flags);
  resolve_teacher(flags, *data.train, &job.host_communicator());
  const PlanRequest request = request_for(flags, std::move(data), job.size(), on_host);
  if (flags.per_class) require_class_results(request.data);
  const ParameterCount parameters = count_parameters(request);
  validate(flags.options);

  agree_on_measuring(job, flags, *request.data.train);
  // A run that finds a checkpoint takes its choices instead, later.
  prepare_algorithms(job, flags.options, "");
  // Refuses a batch that cannot be planned before a folder is made.
  TrainingMemory memory(job, request, flags.model.name);
  try {
    return train_in_folder(job, settings, {request, parameters, memory});
  } catch (const OutOfMemory&) {
    memory.rethrow_explained();  // the memory of the run is free again
  }
}

}  // namespace

int run_training(Job& job, const TrainRequest& asked) {
  try {
    return train(job, asked);
  } catch (Error& error) {
    add_origins(error, asked.flags);
    throw;
  }
}

}  // namespace lockstep

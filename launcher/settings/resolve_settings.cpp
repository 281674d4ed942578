// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/resolve_settings.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "launcher/settings/resume_target.h"
#include "launcher/settings/table/settings_table.h"
#include "lockstep/zoo.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

constexpr std::int64_t kUsualContext = 256;
constexpr double kTableFraction = 0.2;

void resolve_language_model(const GivenSettings& given, TrainFlags& flags) {
  nn::ModelSpec& spec = flags.model;
  const bool tokens = has_tokens(flags.data);
  if (nn::reads_tokens(spec.name) != tokens)
    throw ConfigError(
        tokens
            ? fmt::format("--data {} has tokens, --model {} does not read them; use --model gpt or "
                          "--model llama",
                          flags.data,
                          spec.name)
            : fmt::format("--model {} reads tokens, --data {} has none; use --data text:FILE or "
                          "tokens:PATH",
                          spec.name,
                          flags.data));
  if (!tokens) return;
  if (nn::is_gpt2_preset(spec.name) || nn::is_llama_preset(spec.name)) {
    nn::is_gpt2_preset(spec.name) ? nn::apply_gpt2_preset(spec) : nn::apply_llama_preset(spec);
    if (!given.has("context")) flags.context = spec.context;
  } else {
    if (!given.has("context")) flags.context = kUsualContext;
    spec.context = flags.context;
    LOCKSTEP_CHECK(spec.width % spec.heads == 0,
                   ConfigError,
                   "--width {} is not a multiple of --heads {}",
                   spec.width,
                   spec.heads);
    LOCKSTEP_CHECK(spec.kv_heads == 0 || spec.heads % spec.kv_heads == 0,
                   ConfigError,
                   "--heads {} is not a multiple of --kv-heads {}",
                   spec.heads,
                   spec.kv_heads);
    LOCKSTEP_CHECK(
        spec.name != "llama" || spec.width / spec.heads % 2 == 0,
        ConfigError,
        "--width {} in --heads {} gives heads of {} columns; rotary positions turn pairs",
        spec.width,
        spec.heads,
        spec.width / spec.heads);
  }
  LOCKSTEP_CHECK(flags.context <= spec.context,
                 ConfigError,
                 "--context {} is longer than the {} positions of --model {}",
                 flags.context,
                 spec.context,
                 spec.name);
}

void resolve_data(const GivenSettings& given, TrainFlags& flags) {
  if (!given.has("val-fraction")) flags.val_fraction = is_table(flags.data) ? kTableFraction : 0;
  if (!is_table(flags.data)) return;
  flags.table.skips_bad_rows = flags.options.skip_bad_samples;
  // A resumed run has the features that it was begun with, also by a version that embedded no
  // column.
  if (const auto record = record_of_run(flags.resume, flags.out); record && record->table)
    for (const data::ColumnRecord& column : record->table->columns)
      if (column.kind == data::ColumnRecord::Kind::categorical && !column.embedded)
        flags.table.one_hot_columns.push_back(column.name);
}

void resolve_batch(TrainFlags& flags) {
  TrainOptions& options = flags.options;
  if (options.micro_batch == 0 && options.accumulation == 0)
    options.micro_batch = default_micro_batch(options.global_batch);
  if (options.micro_batch > options.global_batch) {
    throw ConfigError(fmt::format("--micro-batch {} is larger than --global-batch {}",
                                  options.micro_batch,
                                  options.global_batch),
                      fmt::format("use --micro-batch {} or less", options.global_batch));
  }
  flags.measures_micro_batch &= options.accumulation == 0;
  if (!flags.measures_micro_batch) return;
  // With it the batch can be planned wherever it can be planned at all.
  const std::int64_t least = options.augmentation.mixes() ? 2 : 1;
  options.micro_batch = std::min(std::max(options.batch_norm.group, least), options.global_batch);
}

void resolve_length(const GivenSettings& given, TrainOptions& options) {
  std::vector<std::string> lengths;
  for (const char* name : {"epochs", "steps", "samples"})
    if (given.has(name)) lengths.emplace_back(name);
  if (lengths.size() > 1)
    throw ConfigError(fmt::format("--{} cannot be combined with --{}", lengths[1], lengths[0]),
                      "give one of --epochs, --steps and --samples");
  if (lengths.empty()) options.epochs = 1;
}

/// What is given takes the place of the clipping that the model's recipe has.
void resolve_clipping(const GivenSettings& given, TrainOptions& options) {
  if (!given.has("clip-norm") && (options.clip_value > 0 || options.clip_agc > 0))
    options.clip_norm = 0;
}

void resolve_checkpoints(TrainFlags& flags) {
  CheckpointOptions& checkpoint = flags.options.checkpoint;
  if (flags.options.on_spike == OnSpike::rollback && checkpoint.every_steps == 0)
    throw ConfigError(
        fmt::format("--on-spike rollback needs checkpoints that depend on steps alone, and "
                    "--checkpoint-every is {}",
                    flags.checkpoint_every),
        "give --checkpoint-every N, a number of steps, as in --checkpoint-every 1000");
  checkpoint.resume = flags.resume;
  if (flags.resume.empty()) return;
  if (flags.force)
    throw ConfigError("--force cannot be combined with --resume",
                      "a resumed run overwrites nothing: leave --force out");
  if (flags.resume != "auto") return resolve_resume(flags);
  LOCKSTEP_CHECK(
      !flags.out.empty(), ConfigError, "--resume auto needs --out DIR, the run's folder");
  flags.continues = true;
}

}  // namespace

void resolve_settings(const GivenSettings& given, TrainFlags& flags) {
  TrainOptions& options = flags.options;
  resolve_data(given, flags);
  resolve_language_model(given, flags);
  resolve_batch(flags);
  resolve_length(given, options);
  resolve_clipping(given, options);
  validate(options.optimizer);
  // "auto" of another schedule is too short for one-cycle.
  LrSchedule& schedule = options.lr_schedule;
  if (schedule.kind == LrSchedule::Kind::one_cycle && schedule.warmup_ratio > 0)
    schedule.warmup_ratio = kOneCycleWarmup;
  validate(options.lr_schedule, learning_rate(options.optimizer));
  validate(options.lr_scaling, learning_rate(options.optimizer), options.global_batch);
  LOCKSTEP_CHECK(options.recompute != Recompute::automatic || options.memory_limit > 0,
                 ConfigError,
                 "--recompute auto needs a --memory-limit to fit, as in --memory-limit 16GiB");
  // Its default is for the first step, and too long to wait for absent ranks.
  if (flags.watch.start_s != WatchLimits{}.start_s) flags.watch.join_s = flags.watch.start_s;
  resolve_checkpoints(flags);
}

}  // namespace lockstep

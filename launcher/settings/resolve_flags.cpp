// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/base/error.h"
#include "core/base/name_patterns.h"
#include "core/base/suggest.h"
#include "core/nn/zoo.h"
#include "launcher/settings/command_line_arguments.h"
#include "launcher/settings/default_recipe.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/gpt_flags.h"
#include "launcher/settings/resume_target.h"
#include "launcher/settings/table_flags.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;

/// Throws where one of `flags` was given although `because` says that it means nothing here.
void refuse(const CLI::App& app,
            std::initializer_list<const char*> flags,
            const std::string& because,
            const std::string& hint) {
  for (const char* flag : flags) {
    if (app.count(flag) > 0)
      throw ConfigError(fmt::format("{} has no meaning with {}", flag, because), hint);
  }
}

nn::ModelSpec resolve_model(const CLI::App& app, const CommandLineArguments& raw) {
  const std::vector<std::string_view> names = nn::model_names();
  if (std::find(names.begin(), names.end(), raw.model) == names.end()) {
    const std::string best = nearest(raw.model, names);
    throw ConfigError(fmt::format("unknown model '{}'", raw.model),
                      best.empty() ? fmt::format("models: {}", list_of(names))
                                   : fmt::format("did you mean --model {}?", best));
  }
  const std::string chosen = "--model " + raw.model;
  if (raw.model != "mlp") refuse(app, {"--hidden"}, chosen, "it belongs to --model mlp");
  if (!nn::has_stem(raw.model))
    refuse(app, {"--stem"}, chosen, "it belongs to the models of ImageNet, resnet18 to vgg16");
  if (raw.model == "mlp" || is_gpt(raw.model))
    refuse(app, {"--batch-norm"}, chosen, raw.model + " has no batch norm");

  nn::ModelSpec spec;
  spec.name = raw.model;
  resolve_gpt(app, raw, spec);
  spec.stem = raw.stem == "cifar" ? nn::Stem::cifar : nn::Stem::imagenet;
  spec.dropout = float(raw.dropout);
  spec.hidden.clear();
  const bool none = raw.hidden.size() == 1 && raw.hidden[0] == "none";
  for (const std::string& width : raw.hidden) {
    if (none) break;
    const std::int64_t value = to_whole_number(width);
    LOCKSTEP_CHECK(
        value >= 1 && value <= kMaxWidth,
        ConfigError,
        "--hidden: '{}' is no width; expected whole numbers from 1 to {}, as in --hidden "
        "64,64, or none",
        width,
        kMaxWidth);
    spec.hidden.push_back(value);
  }
  return spec;
}

/// `raw` with the model's default_recipe() in place of the flags that were not given; another
/// optimizer than the recipe's has its own defaults.
CommandLineArguments with_recipe(const CLI::App& app, CommandLineArguments raw) {
  const DefaultRecipe& recipe = default_recipe(raw.recipe.empty() ? raw.model : raw.recipe);
  const auto fill = [&](const char* flag, auto& value, auto by_default) {
    if (app.count(flag) == 0) value = by_default;
  };
  fill("--optimizer",
       raw.optimizer,
       std::holds_alternative<Sgd>(recipe.optimizer) ? "sgd" : "adamw");
  if (raw.optimizer == "sgd") {
    const Sgd* own = std::get_if<Sgd>(&recipe.optimizer);
    const Sgd sgd = own != nullptr ? *own : Sgd{};
    fill("--lr", raw.lr, sgd.lr);
    fill("--momentum", raw.momentum, sgd.momentum);
    fill("--weight-decay", raw.weight_decay, sgd.weight_decay);
  } else {
    const AdamW* own = std::get_if<AdamW>(&recipe.optimizer);
    const AdamW adamw = own != nullptr ? *own : AdamW{};
    fill("--lr", raw.lr, adamw.lr);
    fill("--beta2", raw.beta2, adamw.beta2);
    fill("--weight-decay", raw.weight_decay, adamw.weight_decay);
  }
  fill("--lr-schedule", raw.lr_schedule, recipe.lr_schedule);
  fill("--warmup-steps", raw.warmup_steps, recipe.warmup_steps);
  fill("--clip-norm", raw.clip_norm, recipe.clip_norm);
  return raw;
}

Optimizer resolve_optimizer(const CLI::App& app, const CommandLineArguments& raw) {
  const std::string chosen = "--optimizer " + raw.optimizer;
  Optimizer result;
  if (raw.optimizer == "sgd") {
    refuse(app, {"--beta1", "--beta2", "--eps"}, chosen, "it belongs to --optimizer adamw");
    Sgd sgd;
    sgd.lr = float(raw.lr);
    sgd.weight_decay = float(raw.weight_decay);
    sgd.momentum = float(raw.momentum);
    sgd.nesterov = raw.nesterov;
    result = sgd;
  } else {
    refuse(app, {"--momentum", "--nesterov"}, chosen, "it belongs to --optimizer sgd");
    AdamW adamw;
    adamw.lr = float(raw.lr);
    adamw.weight_decay = float(raw.weight_decay);
    adamw.beta1 = float(raw.beta1);
    adamw.beta2 = float(raw.beta2);
    adamw.eps = float(raw.eps);
    result = adamw;
  }
  validate(result);
  if (weight_decay(result) == 0)
    refuse(app, {"--no-decay", "--decay-all"}, "weight decay 0", "set --weight-decay");
  if (raw.decay_all) refuse(app, {"--no-decay"}, "--decay-all", "give one of the two");
  return result;
}

LrSchedule resolve_schedule(const CLI::App& app, const CommandLineArguments& raw, float lr) {
  const std::string chosen = "--lr-schedule " + raw.lr_schedule;
  LrSchedule schedule;
  if (raw.lr_schedule == "constant") {
    refuse(app, {"--min-lr", "--decay-steps"}, chosen, "choose cosine, step or linear");
  } else if (raw.lr_schedule == "cosine") {
    schedule.kind = LrSchedule::Kind::cosine;
  } else if (raw.lr_schedule == "step") {
    schedule.kind = LrSchedule::Kind::step;
  } else {
    schedule.kind = LrSchedule::Kind::linear;
  }
  if (raw.lr_schedule != "step")
    refuse(app, {"--step-every", "--step-factor"}, chosen, "it belongs to --lr-schedule step");
  schedule.min_lr = float(raw.min_lr);
  schedule.decay_steps = raw.decay_steps;
  if (raw.warmup_steps == "auto")
    schedule.warmup_ratio = kWarmupRatio;
  else
    schedule.warmup_steps = to_whole_number(raw.warmup_steps);
  schedule.step_every = raw.step_every;
  schedule.step_factor = float(raw.step_factor);
  validate(schedule, lr);
  return schedule;
}

void resolve_length(const CLI::App& app, const CommandLineArguments& raw, TrainOptions& options) {
  const std::string hint = "give one of --epochs, --steps and --samples";
  if (app.count("--epochs") > 0) refuse(app, {"--steps", "--samples"}, "--epochs", hint);
  if (app.count("--steps") > 0) refuse(app, {"--samples"}, "--steps", hint);
  options.steps = raw.steps;
  options.samples = raw.samples;
  if (raw.steps == 0 && raw.samples == 0) options.epochs = raw.epochs;
}

void resolve_batch(const CommandLineArguments& raw, TrainFlags& flags) {
  TrainOptions& options = flags.options;
  options.global_batch = raw.global_batch;
  options.micro_batch = to_whole_number(raw.micro_batch);
  options.accumulation = raw.accumulation;
  options.shards = int(to_whole_number(raw.shards));
  if (options.micro_batch == 0 && options.accumulation == 0)
    options.micro_batch = default_micro_batch(options.global_batch);
  if (options.micro_batch > options.global_batch) {
    throw ConfigError(fmt::format("--micro-batch {} is larger than --global-batch {}",
                                  options.micro_batch,
                                  options.global_batch),
                      fmt::format("use --micro-batch {} or less", options.global_batch));
  }
  flags.measures_micro_batch = raw.micro_batch == "auto" && raw.accumulation == 0;
  if (!flags.measures_micro_batch) return;
  // With it the batch can be planned wherever it can be planned at all.
  const std::int64_t group = BatchNormPolicy::parse(raw.batch_norm).group;
  options.micro_batch = std::clamp<std::int64_t>(group, 1, options.global_batch);
}

void resolve_data(const CLI::App& app, const CommandLineArguments& raw, TrainFlags& flags) {
  flags.data = raw.data;
  flags.data_from_file = raw.data_from_file;
  const bool table = raw.data.starts_with("csv:");
  const std::string chosen = "--data " + raw.data;
  const bool files = raw.data.starts_with("images:") || raw.data.starts_with("packed:");
  const bool tokens = has_tokens(raw.data);
  if (!table && !files && !tokens)
    refuse(app, {"--val-fraction"}, chosen, "the source has a validation part, or wants none");
  flags.stands_in = raw.stands_in;
  if (!files && !raw.stands_in)
    refuse(app, {"--image-size"}, chosen, "it belongs to images:DIR and packed:FILE");
  if (!files) refuse(app, {"--max-pixels"}, chosen, "it belongs to images:DIR and packed:FILE");
  const bool split = table || app.count("--val-fraction") > 0;
  flags.val_fraction = split ? raw.val_fraction : 0;
  flags.image_size = int(std::min<std::int64_t>(raw.image_size, std::numeric_limits<int>::max()));
  flags.max_pixels = raw.max_pixels;
  flags.options.skip_bad_samples = raw.skip_bad_samples;
  resolve_tokens(app, raw, flags);
  resolve_table(app, raw, flags);
  if (app.count("--ignore-index") > 0)
    flags.ignore_index = std::int32_t(to_whole_number(raw.ignore_index));
  flags.options.augmentation = data::parse_augmentation(raw.augment);
  LOCKSTEP_CHECK((!table && !tokens) || flags.options.augmentation.none(),
                 ConfigError,
                 "--augment has no meaning with {}: augmentation changes images",
                 chosen);
  LOCKSTEP_CHECK(
      files || flags.options.augmentation.resized_crop == 0,
      ConfigError,
      "--augment resized-crop has no meaning with {}: it needs images:DIR or packed:FILE",
      chosen);
  flags.options.workers = raw.workers == "auto" ? -1 : int(to_whole_number(raw.workers));
}

void resolve_weights(const CLI::App& app, const CommandLineArguments& raw, TrainOptions& options) {
  if (raw.init.empty()) refuse(app, {"--init-skip"}, "no --init", "--init names the file");
  for (const auto& [flag, patterns] : {std::pair("--init-skip", &raw.init_skip),
                                       std::pair("--freeze", &raw.freeze),
                                       std::pair("--no-decay", &raw.no_decay)})
    const NamePatterns compiled(flag, *patterns);
  options.init = raw.init;
  options.init_skip = raw.init_skip;
  options.freeze = raw.freeze;
  options.no_decay = raw.no_decay;
}

/// Without `out`, a run or checkpoint that is named goes on where it lies.
void resolve_checkpoints(const CLI::App& app, const CommandLineArguments& raw, TrainFlags& flags) {
  const Interval every = to_interval(raw.checkpoint_every);
  CheckpointOptions& checkpoint = flags.options.checkpoint;
  flags.checkpoint_every = raw.checkpoint_every;
  checkpoint.every_steps = every.steps;
  checkpoint.every_seconds = every.seconds;
  checkpoint.keep = int(std::min<std::int64_t>(raw.checkpoint_keep, 1 << 20));
  if (flags.options.on_spike == OnSpike::rollback && every.steps == 0)
    throw ConfigError(
        fmt::format("--on-spike rollback needs checkpoints that depend on steps "
                    "alone, and --checkpoint-every is {}",
                    raw.checkpoint_every),
        "give --checkpoint-every N, a number of steps, as in --checkpoint-every 1000");
  checkpoint.resume_override = raw.resume_override;
  checkpoint.resume = flags.resume = raw.resume;
  if (raw.resume.empty()) {
    refuse(app, {"--resume-override"}, "no --resume", "--resume says what to go on from");
    return;
  }
  refuse(app, {"--force"}, "--resume", "a run that goes on writes over nothing");
  if (raw.resume == "auto") {
    LOCKSTEP_CHECK(
        !raw.out.empty(), ConfigError, "--resume auto needs --out DIR, the run's folder");
    flags.continues = true;
    return;
  }
  resolve_resume(flags);
}

}  // namespace

TrainFlags resolve_flags(const CLI::App& app, const CommandLineArguments& given) {
  TrainFlags flags;
  flags.model = resolve_model(app, given);
  const CommandLineArguments raw = with_recipe(app, given);
  TrainOptions& options = flags.options;
  resolve_data(app, raw, flags);
  resolve_batch(raw, flags);
  resolve_length(app, raw, options);
  options.optimizer = resolve_optimizer(app, raw);
  options.lr_schedule = resolve_schedule(app, raw, learning_rate(options.optimizer));
  resolve_weights(app, raw, options);
  options.decay_all = raw.decay_all;
  options.clip_norm = float(raw.clip_norm);
  options.batch_norm = BatchNormPolicy::parse(raw.batch_norm);
  options.precision = parse_precision(raw.precision);
  options.fuse = raw.fusion == "on";
  options.recompute = parse_recompute(raw.recompute);
  options.memory_limit = to_bytes(raw.memory_limit);
  LOCKSTEP_CHECK(options.recompute != Recompute::automatic || options.memory_limit > 0,
                 ConfigError,
                 "--recompute auto needs a --memory-limit to fit, as in --memory-limit 16GiB");
  options.seed = std::uint64_t(to_whole_number(raw.seed));
  options.reduction = raw.reduction == "fast" ? Reduction::fast : Reduction::reproducible;
  options.overlap = raw.overlap == "off" ? Overlap::off : Overlap::on;
  options.bucket_mb = to_real_number(raw.bucket_mb);
  options.on_nonfinite = raw.on_nonfinite == "skip" ? OnNonfinite::skip : OnNonfinite::stop;
  options.on_spike = raw.on_spike == "rollback" ? OnSpike::rollback : OnSpike::ignore;
  options.profile = raw.profile;
  options.log_every = raw.log_every;
  options.noise_scale_every = raw.noise_scale_every;
  options.eval_every = raw.eval_every;
  options.check_replicas_every = raw.check_replicas_every;
  if (raw.loss != "huber")
    refuse(app, {"--huber-delta"}, "--loss " + raw.loss, "it belongs to --loss huber");
  flags.loss = raw.loss;
  flags.huber_delta = float(raw.huber_delta);
  flags.label_smoothing = float(raw.label_smoothing);
  flags.ranks = int(to_whole_number(raw.ranks));
  flags.ranks_from_run = raw.ranks_from_run;
  flags.device = raw.device;
  flags.watch = {.training_s = raw.timeout,
                 .start_s = raw.timeout_start,
                 .evaluation_s = raw.timeout_evaluation,
                 .saving_s = raw.timeout_save,
                 // Its default is for the first step, and too long to wait for absent ranks.
                 .join_s = raw.timeout_start == WatchLimits{}.start_s ? WatchLimits{}.join_s
                                                                      : raw.timeout_start};
  flags.out = raw.out;
  flags.force = raw.force;
  flags.tensorboard = raw.tensorboard == "on";
  resolve_checkpoints(app, raw, flags);
  return flags;
}

}  // namespace lockstep

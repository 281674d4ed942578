// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <string_view>

#include "core/nn/zoo.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/gpt_flags.h"
#include "launcher/settings/table_flags.h"
#include "launcher/settings/toml_reader.h"
#include "launcher/settings/working_folder.h"

namespace lockstep {
namespace {

class TomlWriter {
 public:
  void text(const char* key, std::string_view value) {
    text_ += fmt::format("{} = {}\n", key, toml_string(value));
  }
  template <typename Number>
  void number(const char* key, Number value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  void number_or_auto(const char* key, std::int64_t value, std::int64_t automatic) {
    value == automatic ? text(key, "auto") : number(key, value);
  }
  void list(const char* key, const std::vector<std::string>& values) {
    std::string joined;
    for (const std::string& value : values)
      joined += (joined.empty() ? "" : ", ") + toml_string(value);
    text_ += fmt::format("{} = [{}]\n", key, joined);
  }
  void comment(const char* line) { text_ += fmt::format("# {}\n", line); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write_gpt(const nn::ModelSpec& model, TomlWriter& toml) {
  toml.number("layers", model.layers);
  toml.number("heads", model.heads);
  toml.number("width", model.width);
  toml.text("bias", model.bias ? "on" : "off");
  toml.text("tied-head", model.tied_head ? "on" : "off");
  toml.text("gelu", std::string(ops::name_of(model.gelu)));
}

void write_model(const TrainFlags& flags, TomlWriter& toml) {
  toml.text("model", flags.model.name);
  if (flags.model.name == "mlp") {
    std::vector<std::string> widths;
    for (std::int64_t width : flags.model.hidden) widths.push_back(std::to_string(width));
    if (widths.empty()) widths.push_back("none");
    toml.list("hidden", widths);
  } else if (!is_gpt(flags.model.name)) {
    toml.text("batch-norm", flags.options.batch_norm.to_string());
  }
  if (nn::has_stem(flags.model.name))
    toml.text("stem", flags.model.stem == nn::Stem::cifar ? "cifar" : "imagenet");
  if (flags.model.name == "gpt") write_gpt(flags.model, toml);
  toml.number("dropout", flags.model.dropout);
  const TrainOptions& options = flags.options;
  if (!options.init.empty()) toml.text("init", options.init);
  if (!options.init_skip.empty()) toml.list("init-skip", options.init_skip);
  if (!options.freeze.empty()) toml.list("freeze", options.freeze);
}

void write_table(const data::TableOptions& table, TomlWriter& toml) {
  toml.text("task", table.task ? data::name_of(*table.task) : "auto");
  if (!table.label_columns.empty()) toml.list("label-column", table.label_columns);
  toml.text("separator", separator_text(table.separator));
  toml.text("missing", name_of(table.missing));
  if (!table.dropped.empty()) toml.list("drop", table.dropped);
  if (!table.id_columns.empty()) toml.list("id-column", table.id_columns);
  if (!table.categorical.empty()) toml.list("categorical", table.categorical);
}

void write_data(const TrainFlags& flags, TomlWriter& toml) {
  toml.text("data", flags.data);
  if (flags.data.starts_with("csv:") || flags.val_fraction > 0)
    toml.number("val-fraction", flags.val_fraction);
  if (flags.context > 0) toml.number("context", flags.context);
  if (flags.vocabulary > 0) toml.number("vocabulary", flags.vocabulary);
  if (flags.ignore_index) toml.number("ignore-index", *flags.ignore_index);
  if (flags.data.starts_with("csv:")) write_table(flags.table, toml);
  if (flags.data.starts_with("images:") || flags.data.starts_with("packed:"))
    toml.number("image-size", flags.image_size);
  if (flags.data.starts_with("images:")) toml.number("max-pixels", flags.max_pixels);
  toml.text("augment", flags.options.augmentation.to_string());
  toml.number_or_auto("workers", flags.options.workers, -1);
  if (flags.options.skip_bad_samples) toml.number("skip-bad-samples", true);
}

void write_batch(const TrainFlags& flags, TomlWriter& toml) {
  const TrainOptions& options = flags.options;
  toml.number("global-batch", options.global_batch);
  toml.number_or_auto("micro-batch", options.micro_batch, 0);
  if (options.accumulation > 0) toml.number("accumulation", options.accumulation);
  toml.number_or_auto("shards", options.shards, 0);
  toml.number_or_auto("ranks", flags.ranks, 0);
  if (options.steps > 0) {
    toml.number("steps", options.steps);
  } else if (options.samples > 0) {
    toml.number("samples", options.samples);
  } else {
    toml.number("epochs", options.epochs);
  }
}

void write_optimizer(const TrainOptions& options, TomlWriter& toml) {
  if (const Sgd* sgd = std::get_if<Sgd>(&options.optimizer)) {
    toml.text("optimizer", "sgd");
    toml.number("lr", sgd->lr);
    toml.number("momentum", sgd->momentum);
    toml.number("nesterov", sgd->nesterov);
    toml.number("weight-decay", sgd->weight_decay);
  } else if (const AdamW* adamw = std::get_if<AdamW>(&options.optimizer)) {
    toml.text("optimizer", "adamw");
    toml.number("lr", adamw->lr);
    toml.number("beta1", adamw->beta1);
    toml.number("beta2", adamw->beta2);
    toml.number("eps", adamw->eps);
    toml.number("weight-decay", adamw->weight_decay);
  }
  if (!options.no_decay.empty()) toml.list("no-decay", options.no_decay);
  if (options.decay_all) toml.number("decay-all", true);
  toml.number("clip-norm", options.clip_norm);
}

void write_schedule(const LrSchedule& schedule, TomlWriter& toml) {
  constexpr const char* kNames[] = {"constant", "linear", "step", "cosine"};
  toml.text("lr-schedule", kNames[std::size_t(schedule.kind)]);
  const bool automatic = schedule.warmup_steps == 0 && schedule.warmup_ratio > 0;
  toml.number_or_auto("warmup-steps", automatic ? -1 : schedule.warmup_steps, -1);
  if (schedule.kind == LrSchedule::Kind::constant) return;
  toml.number("min-lr", schedule.min_lr);
  if (schedule.decay_steps > 0) toml.number("decay-steps", schedule.decay_steps);
  if (schedule.kind != LrSchedule::Kind::step) return;
  if (schedule.step_every > 0) toml.number("step-every", schedule.step_every);
  toml.number("step-factor", schedule.step_factor);
}

}  // namespace

std::string to_toml(const TrainFlags& flags) {
  const TrainOptions& options = flags.options;
  TomlWriter toml;
  toml.comment("lockstep train --config THIS_FILE repeats this run (into another --out).");
  if (const std::string folder = working_folder(); !folder.empty())
    toml.text(kWorkingFolder, folder);
  write_model(flags, toml);
  write_data(flags, toml);
  write_batch(flags, toml);
  write_optimizer(options, toml);
  write_schedule(options.lr_schedule, toml);
  toml.text("loss", flags.loss);
  if (flags.loss == "huber") toml.number("huber-delta", flags.huber_delta);
  toml.number("label-smoothing", flags.label_smoothing);
  toml.text("device", flags.device);
  toml.text("precision", std::string(name_of(options.precision)));
  toml.text("fusion", options.fuse ? "on" : "off");
  toml.text("recompute", std::string(name_of(options.recompute)));
  if (options.memory_limit > 0) toml.text("memory-limit", std::to_string(options.memory_limit));
  toml.text("reduction", options.reduction == Reduction::fast ? "fast" : "reproducible");
  toml.text("overlap", options.overlap == Overlap::off ? "off" : "on");
  if (options.bucket_mb > 0) toml.number("bucket-mb", options.bucket_mb);
  toml.number("seed", options.seed);
  toml.number("timeout", flags.watch.training_s);
  toml.number("timeout-start", flags.watch.start_s);
  toml.number("timeout-evaluation", flags.watch.evaluation_s);
  toml.number("timeout-save", flags.watch.saving_s);
  toml.text("on-nonfinite", options.on_nonfinite == OnNonfinite::skip ? "skip" : "stop");
  toml.text("on-spike", options.on_spike == OnSpike::rollback ? "rollback" : "ignore");
  toml.number("log-every", options.log_every);
  toml.number("noise-scale-every", options.noise_scale_every);
  toml.number("eval-every", options.eval_every);
  toml.number("check-replicas-every", options.check_replicas_every);
  toml.text("checkpoint-every", flags.checkpoint_every);
  toml.number("checkpoint-keep", options.checkpoint.keep);
  toml.text("tensorboard", flags.tensorboard ? "on" : "off");
  return toml.take();
}

}  // namespace lockstep

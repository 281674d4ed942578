// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fmt/format.h>
#include <limits>

#include "core/base/error.h"
#include "core/data/loader.h"
#include "launcher/flag_values.h"
#include "launcher/raw_flags.h"

namespace lockstep {
namespace {

/// Below the largest float, as which these values are kept.
constexpr double kLargest = 3e38;
/// Keeps products of several numbers of samples and steps far from overflow.
constexpr std::int64_t kMostCount = std::int64_t{1} << 40;
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostWorkers = data::Loader::kMaxWorkers;

/// Adds flags of one group of --help.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string group) : app_(app), group_(std::move(group)) {}

  CLI::Option* text(const std::string& name, std::string& value, const std::string& help) {
    return finish(app_.add_option(name, value, help), "TEXT");
  }
  CLI::Option* words(const std::string& name,
                     std::string& value,
                     const std::vector<std::string_view>& words,
                     const std::string& help) {
    std::string type;
    for (std::string_view word : words) type += (type.empty() ? "" : "|") + std::string(word);
    return finish(app_.add_option(name, value, help), type)->check(one_of(name, words));
  }
  CLI::Option* whole(const std::string& name,
                     std::int64_t& value,
                     std::int64_t least,
                     const std::string& help) {
    return finish(app_.add_option(name, value, help), "N")
        ->check(whole_number(name, least, kMostCount));
  }
  CLI::Option* whole_or_auto(const std::string& name,
                             std::string& value,
                             std::int64_t least,
                             std::int64_t most,
                             const std::string& help) {
    return finish(app_.add_option(name, value, help), "auto|N")
        ->check(whole_number_or(name, "auto", least, most));
  }
  CLI::Option* real(
      const std::string& name, double& value, double least, double most, const std::string& help) {
    return finish(app_.add_option(name, value, help), "X")->check(real_number(name, least, most));
  }
  /// May be given several times.
  CLI::Option* list(const std::string& name,
                    std::vector<std::string>& value,
                    const std::string& type,
                    const std::string& help) {
    CLI::Option* option = app_.add_option(name, value, help);
    return option->group(group_)->type_name(type)->capture_default_str()->allow_extra_args(false);
  }
  CLI::Option* flag(const std::string& name, bool& value, const std::string& help) {
    return app_.add_flag(name, value, help)->group(group_)->take_last();
  }

 private:
  CLI::Option* finish(CLI::Option* option, const std::string& type) {
    return option->group(group_)->type_name(type)->capture_default_str()->take_last();
  }
  CLI::App& app_;
  std::string group_;
};

void declare_model(FlagGroup group, RawFlags& raw) {
  group.text("--model", raw.model, fmt::format("one of {}", fmt::join(nn::model_names(), ", ")))
      ->type_name("NAME");
  group.list("--hidden", raw.hidden, "N,N,...", "mlp: sizes of the hidden layers, or none")
      ->delimiter(',');
  group.words("--stem",
              raw.stem,
              {"imagenet", "cifar"},
              "cifar is for small images: ResNets have a 3x3 stride-1 stem without max-pool, VGG a "
              "single linear layer on averaged features");
  group.real("--dropout",
             raw.dropout,
             0,
             0.999999,
             "dropout probability before the last layer; mlp, vgg: after every hidden one");
  group
      .text("--batch-norm",
            raw.batch_norm,
            "samples normalized together: a micro-batch, all ranks' concurrent micro-batches "
            "(SyncBatchNorm), or exactly G samples")
      ->type_name("local|sync|group:G");
  group
      .text("--init",
            raw.init,
            "pretrained weights with PyTorch's parameter names: safetensors, .pth, an index of "
            "shards, or a folder; Hugging Face's sets the model too")
      ->type_name("FILE|DIR")
      ->default_str("");
  group.list("--init-skip",
             raw.init_skip,
             "REGEX",
             "parameters that are initialized randomly in spite of --init, as a new head; may be "
             "repeated");
  group.list(
      "--freeze",
      raw.freeze,
      "REGEX",
      "parameters that are not trained; may be repeated. Batch norm's running statistics are "
      "updated all the same");
}

void declare_gpt(FlagGroup group, RawFlags& raw) {
  group.whole("--layers", raw.layers, 1, "gpt: transformer blocks");
  group.whole("--heads", raw.heads, 1, "gpt: attention heads");
  group.whole("--width", raw.width, 1, "gpt: embedding dimension, a multiple of --heads");
  group.words("--bias", raw.bias, {"on", "off"}, "gpt: biases in linear layers and layer norms");
  group.words("--tied-head",
              raw.tied_head,
              {"on", "off"},
              "gpt: weight tying of token embedding and output layer");
  group.words(
      "--gelu", raw.gelu, {"tanh", "erf"}, "gpt: tanh approximation of GELU, or the exact one");
}

void declare_table(FlagGroup group, RawFlags& raw) {
  group.words(
      "--task",
      raw.task,
      {"auto", "classification", "regression", "multi-label"},
      "csv: what is predicted of the label columns; auto: chosen by their values, and said");
  group.list("--label-column",
             raw.label_columns,
             "NAME|N",
             "csv: what is predicted, the last column by default; several are several numbers, or "
             "labels of 0 and 1; may be repeated");
  group
      .text("--separator", raw.separator, "csv: between fields; auto: what the header has most of")
      ->type_name("auto|tab|C");
  group.words("--missing",
              raw.missing,
              {"error", "mean", "median", "drop", "category"},
              "csv: for an empty field, NA, NaN, null or ?: the column's mean or median in the "
              "training part (a missing text is a category of its own), or skip the row; category: "
              "of texts alone");
  group.list("--drop", raw.drop, "NAME|N", "csv: a column that is not looked at; may be repeated");
  group.list("--id-column",
             raw.id_columns,
             "NAME|N",
             "csv: a column that is no feature, and names rows in predictions; may be repeated");
  group.list("--categorical",
             raw.categorical,
             "NAME|N",
             "csv: a feature whose values are categories, numbers too; may be repeated");
}

void declare_data(FlagGroup group, RawFlags& raw) {
  group
      .text("--data",
            raw.data,
            "glyphs (drawn digits), csv:FILE (a table), mnist:DIR, cifar10:DIR, images:DIR (a "
            "folder of JPEG "
            "and PNG files per class), packed:FILE (of lockstep pack), text:FILE (characters), "
            "tokens:PATH (16-bit tokens), synthetic[:HxWxC[:CLASSES]]")
      ->type_name("SOURCE");
  group
      .real("--val-fraction",
            raw.val_fraction,
            0,
            1,
            "fraction of the samples for validation, where the source has no validation set; 1: "
            "all, for lockstep evaluate")
      ->default_str("csv: 0.2, images: 0, text, tokens: 0.1");
  group.whole(
      "--image-size", raw.image_size, 1, "images and packed: side of the input images, in pixels");
  group.whole("--context", raw.context, 1, "text, tokens: context length of gpt, in tokens")
      ->default_str("256, gpt2-*: 1024");
  group.whole("--vocabulary", raw.vocabulary, 1, "tokens: vocabulary size")->default_str("50257");
  group
      .text("--ignore-index", raw.ignore_index, "target value that is ignored in loss and accuracy")
      ->type_name("N")
      ->check(whole_number("--ignore-index", -1000000, 1000000));
  declare_table(group, raw);
  group
      .text("--augment",
            raw.augment,
            "none, or a list of resized-crop[:SMALLEST_SHARE], shift[:PIXELS], flip, "
            "crop[:PIXELS]")
      ->type_name("LIST");
  group.flag("--skip-bad-samples",
             raw.skip_bad_samples,
             "replace samples that cannot be read by their neighbours, and count them; in "
             "validations they are skipped. csv: rows that cannot be read are skipped, named and "
             "counted");
  group.whole_or_auto("--workers", raw.workers, 0, kMostWorkers, "data loading threads per rank");
}

void declare_batch(FlagGroup group, RawFlags& raw) {
  group.whole(
      "--global-batch", raw.global_batch, 1, "samples of an optimizer step, over all ranks");
  group
      .whole_or_auto(
          "--micro-batch",
          raw.micro_batch,
          1,
          kMostCount,
          "samples that a rank computes at once; auto: the largest of the fastest, measured, that "
          "fits memory and --memory-limit")
      ->default_str("at most 32, and at least 2 in a global batch");
  group
      .whole("--accumulation",
             raw.accumulation,
             1,
             "gradient accumulation: micro-batches of each rank in a step")
      ->default_str("");
  group.whole_or_auto("--shards",
                      raw.shards,
                      1,
                      kMostRanks,
                      "leaves of the gradients' summation tree, the maximum number of ranks; auto: "
                      "the number of micro-batches, at most 64");
  group.whole_or_auto("--ranks",
                      raw.ranks,
                      1,
                      kMostRanks,
                      "processes to start where no launcher did; auto: one per core");
  group.real("--epochs", raw.epochs, 1e-9, 1e12, "epochs: passes over the training data");
  group.whole("--steps", raw.steps, 1, "optimizer steps, instead of --epochs")->default_str("");
  group.whole("--samples", raw.samples, 1, "training samples, instead of --epochs")
      ->default_str("");
}

void declare_optimizer(FlagGroup group, RawFlags& raw) {
  constexpr const char* kByModel = "by model";
  group.words("--optimizer", raw.optimizer, {"sgd", "adamw"}, "optimizer")->default_str(kByModel);
  group.real("--lr", raw.lr, 0, kLargest, "learning rate")->default_str(kByModel);
  group
      .words("--lr-schedule",
             raw.lr_schedule,
             {"constant", "cosine", "step", "linear"},
             "learning rate schedule")
      ->default_str(kByModel);
  group.real("--min-lr", raw.min_lr, 0, kLargest, "minimum learning rate of a schedule");
  group.whole("--decay-steps", raw.decay_steps, 1, "steps of decay after warmup, down to --min-lr")
      ->default_str("the rest");
  group
      .whole_or_auto("--warmup-steps",
                     raw.warmup_steps,
                     0,
                     kMostCount,
                     "steps of linear warmup to --lr; auto: a twentieth of all steps")
      ->default_str(kByModel);
  group.whole("--step-every", raw.step_every, 1, "step: steps between two decays")
      ->default_str("a third");
  group.real("--step-factor", raw.step_factor, 1e-9, 1, "step: factor of each decay (gamma)");
  group.real("--momentum", raw.momentum, 0, 0.999999, "sgd: momentum")->default_str(kByModel);
  group.flag("--nesterov", raw.nesterov, "sgd: Nesterov momentum");
  group.real("--weight-decay", raw.weight_decay, 0, kLargest, "weight decay; adamw: decoupled")
      ->default_str(kByModel);
  group.list("--no-decay",
             raw.no_decay,
             "REGEX",
             "parameters without weight decay, in addition to biases and norms; may be repeated");
  group.flag("--decay-all", raw.decay_all, "apply weight decay to biases and norms as well");
  group.real("--beta1", raw.beta1, 0, 0.999999, "adamw: decay rate of the first moment");
  group.real("--beta2", raw.beta2, 0, 0.999999, "adamw: decay rate of the second moment")
      ->default_str(kByModel);
  group.real("--eps", raw.eps, 1e-30, kLargest, "adamw: epsilon, added to the denominator");
  group
      .real("--clip-norm",
            raw.clip_norm,
            0,
            kLargest,
            "gradient clipping: maximum global norm; 0: no clipping")
      ->default_str(kByModel);
  group.words(
      "--loss",
      raw.loss,
      {"auto", "cross-entropy", "mse", "mae", "huber", "bce"},
      "loss function; auto: cross-entropy for classes and tokens, bce (binary cross-entropy "
      "with logits) for several labels a sample, mse for numbers");
  group.real("--huber-delta",
             raw.huber_delta,
             1e-30,
             kLargest,
             "huber: absolute error from which the loss is linear (delta)");
  group.real("--label-smoothing",
             raw.label_smoothing,
             0,
             0.999999,
             "label smoothing: probability spread over all classes");
}

void declare_engine(FlagGroup group, RawFlags& raw) {
  group.words("--device", raw.device, {"auto", "cpu", "cuda"}, "device that computes");
  group.words(
      "--precision",
      raw.precision,
      {"fp32", "tf32", "bf16"},
      "precision of activations and matmuls (tf32: of matmul inputs, GPUs only); parameters, "
      "accumulation and losses are always fp32");
  group.words(
      "--fusion",
      raw.fusion,
      {"on", "off"},
      "operator fusion: bias and activation into matmuls, ReLU and residual into batch norm, "
      "residual into layer norm");
  group.words(
      "--recompute",
      raw.recompute,
      {"none", "all", "auto"},
      "activation checkpointing: recompute activations in backward instead of keeping them; auto: "
      "the cheapest that fits --memory-limit");
  group
      .text("--memory-limit",
            raw.memory_limit,
            "maximum memory that a rank reserves on its device: lockstep plan's table without "
            "snapshot, loader and the program itself")
      ->type_name("BYTES|16GiB")
      ->check(byte_size("--memory-limit"));
  group.words("--reduction",
              raw.reduction,
              {"reproducible", "fast"},
              "gradient all-reduce: the same bits on any number of ranks, or the library's order");
  group.words(
      "--overlap", raw.overlap, {"on", "off"}, "all-reduce gradients during backward, or after it");
  group
      .text("--bucket-mb",
            raw.bucket_mb,
            "bucket size of the gradient all-reduce, in MiB; auto: 4 on CPUs, 4 to 64 on GPUs")
      ->type_name("auto|MIB")
      ->check(real_number_or("--bucket-mb", "auto", 1e-6, 4096));
  group.text("--seed", raw.seed, "random seed")
      ->type_name("N")
      ->check(whole_number("--seed", 0, std::numeric_limits<std::int64_t>::max()));
}

void declare_faults(FlagGroup group, RawFlags& raw) {
  constexpr double kMostSeconds = 1e9;
  const auto seconds = [&](const char* name, double& value, const char* help) {
    group.real(name, value, 0, kMostSeconds, help)
        ->type_name("SECONDS")
        ->check(CLI::Validator(
            [name](std::string& text) {
              const double given = std::strtod(text.c_str(), nullptr);
              // Ranks tell four times a second that they live.
              LOCKSTEP_CHECK(given == 0 || given >= 1,
                             ConfigError,
                             "{} {}: expected 0, for ever, or at least 1 second",
                             name,
                             text);
              return std::string();
            },
            ""));
  };
  seconds("--timeout",
          raw.timeout,
          "heartbeat timeout of a rank, and the time without progress of any rank, after which the "
          "run ends with exit code 5; 0: no limit");
  seconds(
      "--timeout-start",
      raw.timeout_start,
      "the same until the first step is done; where given, also the timeout of ranks that have not "
      "joined, otherwise a minute");
  seconds("--timeout-evaluation", raw.timeout_evaluation, "the same during a validation");
  seconds(
      "--timeout-save", raw.timeout_save, "the same while all ranks wait for the last checkpoint");
  group.words(
      "--on-nonfinite",
      raw.on_nonfinite,
      {"stop", "skip"},
      "when loss or gradients of a step are not finite: stop and name the first operator, or "
      "skip the step (20 in a row stop all the same)");
  group.words(
      "--on-spike",
      raw.on_spike,
      {"ignore", "rollback"},
      "when the loss jumps far above its mean: ignore it, or roll back to the last checkpoint by "
      "--checkpoint-every, which has to be in steps, and skip the batches up to the jump");
}

void declare_output(FlagGroup group, RawFlags& raw) {
  group.text("--out", raw.out, "output folder of this run")
      ->type_name("DIR")
      ->default_str("runs/<time>");
  group.whole("--log-every", raw.log_every, 0, "steps between two log lines; 0: never");
  group.whole("--noise-scale-every",
              raw.noise_scale_every,
              0,
              "steps between two measurements of the gradient noise scale; 0: never");
  group.whole(
      "--eval-every", raw.eval_every, -1, "steps between validations; 0: never, -1: every epoch");
  group.whole("--check-replicas-every",
              raw.check_replicas_every,
              0,
              "steps between two checks that all ranks have equal weights and optimizer state; 0: "
              "never");
  group
      .text("--checkpoint-every",
            raw.checkpoint_every,
            "steps or time between two checkpoints, and one at the end; 0: only when a signal "
            "stops the run")
      ->type_name("N[steps|s|m|h]")
      ->check(interval("--checkpoint-every"));
  group.whole(
      "--checkpoint-keep",
      raw.checkpoint_keep,
      1,
      "newest checkpoints that are kept, in addition to the one of the lowest validation loss");
  group
      .text(
          "--resume",
          raw.resume,
          "auto: resume from the newest whole checkpoint in --out, or start there; or resume from "
          "a run or a checkpoint; without --config, with its settings")
      ->type_name("auto|DIR")
      ->default_str("");
  group.flag("--resume-override",
             raw.resume_override,
             "resume although settings differ from the checkpoint's");
  group.words("--tensorboard",
              raw.tensorboard,
              {"on", "off"},
              "write DIR/tensorboard/ for `tensorboard --logdir DIR`");
  group.flag("--profile",
             raw.profile,
             "print time, FLOPs, bytes and fraction of the peak per operator, and write trace.json "
             "for ui.perfetto.dev");
  group.flag("--force", raw.force, "overwrite the run in --out");
}

}  // namespace

void declare_flags(CLI::App& app, RawFlags& raw) {
  declare_model({app, "Model"}, raw);
  declare_gpt({app, "Model"}, raw);
  declare_data({app, "Data"}, raw);
  declare_batch({app, "Batch and length"}, raw);
  declare_optimizer({app, "Optimizer"}, raw);
  declare_engine({app, "Engine"}, raw);
  declare_faults({app, "Faults"}, raw);
  declare_output({app, "Output"}, raw);
}

}  // namespace lockstep

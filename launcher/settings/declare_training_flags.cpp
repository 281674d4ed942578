// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/declare_training_flags.h"

#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "launcher/settings/command_line_arguments.h"
#include "launcher/settings/flag_group.h"

namespace lockstep {
namespace {

/// Below the largest float, as which these values are kept.
constexpr double kLargest = 3e38;

void declare_optimizer(FlagGroup group, CommandLineArguments& raw) {
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
                     kMaxCount,
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

void declare_engine(FlagGroup group, CommandLineArguments& raw) {
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
            "snapshot, loader, image decoding and the program itself")
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

void declare_faults(FlagGroup group, CommandLineArguments& raw) {
  constexpr double kMaxSeconds = 1e9;
  const auto seconds = [&](const char* name, double& value, const char* help) {
    group.real(name, value, 0, kMaxSeconds, help)
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

void declare_output(FlagGroup group, CommandLineArguments& raw) {
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

void declare_training_flags(CLI::App& app, CommandLineArguments& raw) {
  declare_optimizer({app, "Optimizer"}, raw);
  declare_engine({app, "Engine"}, raw);
  declare_faults({app, "Faults"}, raw);
  declare_output({app, "Output"}, raw);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/settings/table/settings_table.h"

namespace lockstep {
namespace {

/// Seconds: 0, for ever, or at least 1, since ranks send four heartbeats a second.
template <typename Member>
void add_timeout(SettingRows& rows, const char* name, Member member, const char* help) {
  constexpr double kMaxSeconds = 1e9;
  Setting& row = rows.real(name, member, 0, kMaxSeconds, help);
  row.typed("SECONDS");
  row.set = [parse = row.set, flag = row.name](TrainFlags& flags, const Texts& texts) {
    parse(flags, texts);
    const double seconds = to_real_number(texts.back());
    LOCKSTEP_CHECK(seconds == 0 || seconds >= 1,
                   ConfigError,
                   "--{} {}: expected 0, for ever, or at least 1 second",
                   flag,
                   texts.back());
  };
}

void add_faults(SettingRows rows) {
  add_timeout(
      rows,
      "timeout",
      LOCKSTEP_AT(watch.training_s),
      "heartbeat timeout of a rank, and the time without progress of any rank, after which the run "
      "ends with exit code 5; 0: no limit");
  add_timeout(
      rows,
      "timeout-start",
      LOCKSTEP_AT(watch.start_s),
      "the same until the first step is done; where given, also the timeout of ranks that have not "
      "joined, otherwise a minute");
  add_timeout(
      rows, "timeout-evaluation", LOCKSTEP_AT(watch.evaluation_s), "the same during a validation");
  add_timeout(rows,
              "timeout-save",
              LOCKSTEP_AT(watch.saving_s),
              "the same while all ranks wait for the last checkpoint");
  rows.choice(
      "on-nonfinite",
      LOCKSTEP_AT(options.on_nonfinite),
      Words<OnNonfinite>{{"stop", OnNonfinite::stop}, {"skip", OnNonfinite::skip}},
      "when loss or gradients of a step are not finite: stop and name the first operator, or skip "
      "the step (20 in a row stop all the same)");
  rows.choice(
      "on-spike",
      LOCKSTEP_AT(options.on_spike),
      Words<OnSpike>{{"ignore", OnSpike::ignore}, {"rollback", OnSpike::rollback}},
      "when the loss jumps far above its mean: ignore it, or roll back to the last checkpoint by "
      "--checkpoint-every, which has to be in steps, and skip the batches up to the jump");
}

void set_checkpoint_every(TrainFlags& flags, const std::string& text) {
  interval("--checkpoint-every")(text);
  flags.checkpoint_every = text;
  const Interval every = to_interval(text);
  flags.options.checkpoint.every_steps = every.steps;
  flags.options.checkpoint.every_seconds = every.seconds;
}

void set_snapshot_every(TrainFlags& flags, const std::string& text) {
  const bool known = text == "auto" || text == "0" ||
                     (interval("--snapshot-every")(text).empty() && to_interval(text).seconds > 0);
  if (!known)
    throw ConfigError(
        fmt::format("--snapshot-every {}: expected auto, a time or 0", as_written(text)),
        "for example --snapshot-every 30s, or 5m; 0: none");
  flags.snapshot_every = text;
  flags.snapshots = text != "0";
  flags.options.checkpoint.snapshot_seconds = text == "auto" ? 0 : to_interval(text).seconds;
}

void add_intervals(SettingRows rows) {
  rows.whole(
      "log-every", LOCKSTEP_AT(options.log_every), 0, "steps between two log lines; 0: never");
  rows.whole("noise-scale-every",
             LOCKSTEP_AT(options.noise_scale_every),
             0,
             "steps between two measurements of the gradient noise scale; 0: never");
  rows.whole("eval-every",
             LOCKSTEP_AT(options.eval_every),
             -1,
             "steps between validations; 0: never, -1: every epoch");
  rows.whole("early-stop",
             LOCKSTEP_AT(options.early_stop),
             0,
             "end after so many validations in a row without a better one (--best-by); 0: never");
  rows.choice("best-by",
              LOCKSTEP_AT(options.best_by),
              Words<BestBy>{{"loss", BestBy::loss}, {"accuracy", BestBy::accuracy}},
              "what validations are compared by, for --early-stop and the best checkpoint: a lower "
              "loss or a higher accuracy is better");
  rows.whole(
      "check-replicas-every",
      LOCKSTEP_AT(options.check_replicas_every),
      0,
      "steps between two checks that all ranks have equal weights and optimizer state; 0: never");
  rows.custom("checkpoint-every",
              "N[steps|s|m|h]",
              "steps or time between two checkpoints, and one at the end; 0: only when a signal "
              "stops the run",
              set_checkpoint_every,
              [](const TrainFlags& flags) { return flags.checkpoint_every; });
  rows.custom("snapshot-every",
              "auto|TIME",
              "under lockstep run: time between two snapshots in memory, from which a restart "
              "continues; auto: as often as takes 0.5% of the time; 0: none",
              set_snapshot_every,
              [](const TrainFlags& flags) { return flags.snapshot_every; });
  rows.whole("checkpoint-keep",
             LOCKSTEP_AT(options.checkpoint.keep),
             1,
             "newest checkpoints that are kept, in addition to the best one (--best-by)",
             std::numeric_limits<int>::max());
}

void add_output(SettingRows rows) {
  rows.text("out", "DIR", LOCKSTEP_AT(out), "output folder of this run")
      .of_one_start()
      .shown_as("runs/<time>");
  add_intervals(rows);
  rows.text(
          "resume",
          "auto|DIR",
          LOCKSTEP_AT(resume),
          "auto: resume from the newest whole checkpoint in --out, or start there; or resume from "
          "a "
          "run or a checkpoint; without --config, with its settings")
      .of_one_start();
  rows.flag("resume-override",
            LOCKSTEP_AT(options.checkpoint.resume_override),
            "resume although settings differ from the checkpoint's")
      .of_one_start()
      .when({"resume",
             [](const TrainFlags& flags, std::string_view) { return !flags.resume.empty(); },
             "--resume says what to resume from"});
  rows.on_off("tensorboard",
              LOCKSTEP_AT(tensorboard),
              "write DIR/tensorboard/ for `tensorboard --logdir DIR`");
  rows.flag("per-class",
            LOCKSTEP_AT(per_class),
            "after training, samples, recall, precision and F1 of each class of the validation "
            "part and the confusion matrix, in summary.json and the report; a second pass over it")
      .when({"data",
             [](const TrainFlags& flags, std::string_view) { return !has_tokens(flags.data); },
             "tokens have no classes"});
  rows.flag("profile",
            LOCKSTEP_AT(options.profile),
            "print time, FLOPs, bytes and fraction of the peak per operator, and write trace.json "
            "for ui.perfetto.dev")
      .of_one_start();
  rows.flag("force", LOCKSTEP_AT(force), "overwrite the run in --out").of_one_start();
}

}  // namespace

void add_run_settings(std::vector<Setting>& table) {
  add_faults({table, "Faults"});
  add_output({table, "Output"});
}

}  // namespace lockstep

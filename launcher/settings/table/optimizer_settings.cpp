// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/default_recipe.h"
#include "launcher/settings/table/settings_table.h"

namespace lockstep {
namespace {

using Kind = LrSchedule::Kind;

constexpr const char* kByModel = "by model";

Applies with_sgd() {
  return {"optimizer",
          [](const TrainFlags& flags, std::string_view) {
            return std::holds_alternative<Sgd>(flags.options.optimizer);
          },
          "it belongs to --optimizer sgd"};
}
Applies with_adamw() {
  return {"optimizer",
          [](const TrainFlags& flags, std::string_view) {
            return std::holds_alternative<AdamW>(flags.options.optimizer);
          },
          "it belongs to --optimizer adamw"};
}
Applies with_decay() {
  return {"weight-decay",
          [](const TrainFlags& flags, std::string_view) {
            return weight_decay(flags.options.optimizer) != 0;
          },
          "set --weight-decay"};
}
Applies with_schedule(bool (*holds)(Kind), std::string hint) {
  return {"lr-schedule",
          [holds](const TrainFlags& flags, std::string_view) {
            return holds(flags.options.lr_schedule.kind);
          },
          std::move(hint)};
}

void add_rates(SettingRows rows) {
  rows.custom(
          "optimizer",
          "sgd|adamw",
          "optimizer",
          [check = one_of("--optimizer", {"sgd", "adamw"})](TrainFlags& flags,
                                                            const std::string& text) {
            check(text);
            // Another than the model's has its own defaults.
            Optimizer& optimizer = flags.options.optimizer;
            if (text == "sgd" && !std::holds_alternative<Sgd>(optimizer)) optimizer = Sgd{};
            if (text == "adamw" && !std::holds_alternative<AdamW>(optimizer)) optimizer = AdamW{};
          },
          [](const TrainFlags& flags) {
            return std::holds_alternative<Sgd>(flags.options.optimizer) ? "sgd" : "adamw";
          })
      .shown_as(kByModel);
  rows.custom(
          "lr",
          "X",
          "learning rate",
          [check = real_number("--lr", 0, kMaxReal)](TrainFlags& flags, const std::string& text) {
            check(text);
            std::visit([&](auto& optimizer) { optimizer.lr = float(to_real_number(text)); },
                       flags.options.optimizer);
          },
          [](const TrainFlags& flags) {
            return fmt::format("{}", learning_rate(flags.options.optimizer));
          })
      .shown_as(kByModel);
}

void add_schedule(SettingRows rows) {
  rows.choice("lr-schedule",
              LOCKSTEP_AT(options.lr_schedule.kind),
              Words<Kind>{{"constant", Kind::constant},
                          {"cosine", Kind::cosine},
                          {"step", Kind::step},
                          {"linear", Kind::linear}},
              "learning rate schedule")
      .shown_as(kByModel);
  const auto decays = with_schedule([](Kind kind) { return kind != Kind::constant; },
                                    "choose cosine, step or linear");
  rows.real("min-lr",
            LOCKSTEP_AT(options.lr_schedule.min_lr),
            0,
            kMaxReal,
            "minimum learning rate of a schedule")
      .when(decays)
      .shown_as("0");
  rows.whole("decay-steps",
             LOCKSTEP_AT(options.lr_schedule.decay_steps),
             1,
             "steps of decay after warmup, down to --min-lr")
      .when(decays)
      .shown_as("the rest");
  rows.custom(
          "warmup-steps",
          "auto|N",
          "steps of linear warmup to --lr; auto: a twentieth of all steps",
          [check = whole_number_or("--warmup-steps", "auto", 0, kMaxCount)](
              TrainFlags& flags, const std::string& text) {
            check(text);
            LrSchedule& schedule = flags.options.lr_schedule;
            schedule.warmup_ratio = text == "auto" ? kWarmupRatio : 0;
            schedule.warmup_steps = to_whole_number(text);
          },
          [](const TrainFlags& flags) {
            const LrSchedule& schedule = flags.options.lr_schedule;
            const bool automatic = schedule.warmup_steps == 0 && schedule.warmup_ratio > 0;
            return automatic ? "auto" : std::to_string(schedule.warmup_steps);
          })
      .shown_as(kByModel);
  const auto in_steps = with_schedule([](Kind kind) { return kind == Kind::step; },
                                      "it belongs to --lr-schedule step");
  rows.whole("step-every",
             LOCKSTEP_AT(options.lr_schedule.step_every),
             1,
             "step: steps between two decays")
      .when(in_steps)
      .shown_as("a third");
  rows.real("step-factor",
            LOCKSTEP_AT(options.lr_schedule.step_factor),
            1e-9,
            1,
            "step: factor of each decay (gamma)")
      .when(in_steps)
      .shown_as("0.1");
}

void add_momenta(SettingRows rows) {
  rows.real(
          "momentum",
          [](auto& f) -> auto& { return std::get<Sgd>(f.options.optimizer).momentum; },
          0,
          0.999999,
          "sgd: momentum")
      .when(with_sgd())
      .shown_as(kByModel);
  rows.flag(
          "nesterov",
          [](auto& f) -> auto& { return std::get<Sgd>(f.options.optimizer).nesterov; },
          "sgd: Nesterov momentum")
      .when(with_sgd())
      .when({"momentum",
             [](const TrainFlags& flags, std::string_view text) {
               return text == "false" || std::get<Sgd>(flags.options.optimizer).momentum > 0;
             },
             "Nesterov momentum needs --momentum X, as in --momentum 0.9"});
  rows.real(
          "beta1",
          [](auto& f) -> auto& { return std::get<AdamW>(f.options.optimizer).beta1; },
          0,
          0.999999,
          "adamw: decay rate of the first moment")
      .when(with_adamw())
      .shown_as(fmt::format("{}", AdamW{}.beta1));
  rows.real(
          "beta2",
          [](auto& f) -> auto& { return std::get<AdamW>(f.options.optimizer).beta2; },
          0,
          0.999999,
          "adamw: decay rate of the second moment")
      .when(with_adamw())
      .shown_as(kByModel);
  rows.real(
          "eps",
          [](auto& f) -> auto& { return std::get<AdamW>(f.options.optimizer).eps; },
          1e-30,
          kMaxReal,
          "adamw: epsilon, added to the denominator")
      .when(with_adamw())
      .shown_as(fmt::format("{}", AdamW{}.eps));
}

void add_weight_decay(SettingRows rows) {
  rows.custom(
          "weight-decay",
          "X",
          "weight decay; adamw: decoupled",
          [check = real_number("--weight-decay", 0, kMaxReal)](TrainFlags& flags,
                                                               const std::string& text) {
            check(text);
            std::visit(
                [&](auto& optimizer) { optimizer.weight_decay = float(to_real_number(text)); },
                flags.options.optimizer);
          },
          [](const TrainFlags& flags) {
            return fmt::format("{}", weight_decay(flags.options.optimizer));
          })
      .shown_as(kByModel);
  const std::vector<std::string> either{"no-decay", "decay-all"};
  rows.flag("decay-all",
            LOCKSTEP_AT(options.decay_all),
            "apply weight decay to biases and norms as well")
      .when(with_decay())
      .yields(either);
  rows.patterns("no-decay",
                LOCKSTEP_AT(options.no_decay),
                "parameters without weight decay, in addition to biases and norms; may be repeated")
      .when(with_decay())
      .when({"decay-all",
             [](const TrainFlags& flags, std::string_view) { return !flags.options.decay_all; },
             "give one of the two"})
      .yields(either);
}

void add_loss(SettingRows rows) {
  rows.word(
      "loss",
      LOCKSTEP_AT(loss),
      {"auto", "cross-entropy", "mse", "mae", "huber", "bce"},
      "loss function; auto: cross-entropy for classes and tokens, bce (binary cross-entropy with "
      "logits) for several labels a sample, mse for numbers");
  rows.real("huber-delta",
            LOCKSTEP_AT(huber_delta),
            1e-30,
            kMaxReal,
            "huber: absolute error from which the loss is linear (delta)")
      .when({"loss",
             [](const TrainFlags& flags, std::string_view) { return flags.loss == "huber"; },
             "it belongs to --loss huber"})
      .shown_as("1");
  rows.real("label-smoothing",
            LOCKSTEP_AT(label_smoothing),
            0,
            0.999999,
            "label smoothing: probability spread over all classes")
      .when({"loss",
             [](const TrainFlags& flags, std::string_view text) {
               return to_real_number(std::string(text)) == 0 || flags.loss == "auto" ||
                      flags.loss == "cross-entropy";
             },
             "it belongs to cross-entropy"});
}

}  // namespace

void add_optimizer_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Optimizer");
  const std::size_t first = table.size();
  add_rates(rows);
  add_momenta(rows);
  const std::size_t schedule = table.size();
  add_schedule(rows);
  for (std::size_t i = first; i < table.size(); ++i)
    table[i].belongs_to(i < schedule ? "optimizer" : "lr-schedule");
  const std::size_t decay = table.size();
  add_weight_decay(rows);
  table[decay].belongs_to("optimizer");
  rows.real("clip-norm",
            LOCKSTEP_AT(options.clip_norm),
            0,
            kMaxReal,
            "gradient clipping: maximum global norm; 0: no clipping")
      .shown_as(kByModel);
  add_loss(rows);
}

}  // namespace lockstep

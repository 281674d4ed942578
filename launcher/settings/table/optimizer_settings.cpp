// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/ranges.h>

#include "core/optim/optimizer.h"
#include "core/optim/optimizer_hyper_parameter.h"
#include "launcher/settings/default_recipe.h"
#include "launcher/settings/table/settings_table.h"
#include "lockstep/optimizer.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

using Kind = LrSchedule::Kind;

constexpr const char* kByModel = "by model";

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

using HyperParameter = OptimizerHyperParameter;

/// A hyper-parameter, and the optimizers that have it with what each says of it.
struct HyperParameterRow {
  HyperParameter of_first;  ///< for name and kind; each optimizer has a range of its own
  std::vector<std::string_view> owners = {};
  std::vector<std::string> helps = {};
  std::string fallback = {};
};

std::optional<HyperParameter> find(Optimizer& optimizer, std::string_view name) {
  for (const HyperParameter& parameter : hyper_parameters(optimizer))
    if (parameter.name == name) return parameter;
  return std::nullopt;
}

/// Empty: a truth value that is off, or there is no such hyper-parameter.
std::string text_of(Optimizer optimizer, std::string_view name) {
  const auto parameter = find(optimizer, name);
  if (!parameter) return {};
  if (const auto* const number = std::get_if<float*>(&parameter->value))
    return fmt::format("{}", **number);
  return *std::get<bool*>(parameter->value) ? "true" : "";
}

/// The default that --help shows.
std::string fallback_of(const Optimizer& optimizer, std::string_view name) {
  for (const std::string_view model : nn::model_names()) {
    const Optimizer& of_model = default_recipe(model).optimizer;
    if (name_of(of_model) == name_of(optimizer) &&
        text_of(of_model, name) != text_of(optimizer, name))
      return kByModel;
  }
  return text_of(optimizer, name);
}

std::vector<HyperParameterRow> hyper_parameter_rows() {
  std::vector<HyperParameterRow> rows;
  for (const std::string_view owner : optimizer_names()) {
    Optimizer optimizer = make_optimizer(owner);
    for (const HyperParameter& parameter : hyper_parameters(optimizer)) {
      auto row = std::ranges::find_if(
          rows, [&](const HyperParameterRow& r) { return r.of_first.name == parameter.name; });
      if (row == rows.end())
        row = rows.insert(row, {parameter, {}, {}, fallback_of(optimizer, parameter.name)});
      else if (row->fallback != fallback_of(optimizer, parameter.name))
        row->fallback = kByModel;
      row->owners.push_back(owner);
      row->helps.emplace_back(parameter.help);
    }
  }
  return rows;
}

std::string help_of(const HyperParameterRow& row) {
  const bool of_all = row.owners.size() == optimizer_names().size();
  if (of_all && std::ranges::count(row.helps, row.helps[0]) == std::ssize(row.helps))
    return row.helps[0];
  std::vector<std::pair<std::string, std::string>> parts;  // owners, help
  for (std::size_t i = 0; i < row.owners.size(); ++i) {
    const auto same = std::ranges::find(parts, row.helps[i], &decltype(parts)::value_type::second);
    if (same == parts.end())
      parts.emplace_back(row.owners[i], row.helps[i]);
    else
      same->first += fmt::format(", {}", row.owners[i]);
  }
  std::string text;
  for (const auto& [owners, help] : parts)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", owners, help);
  return text;
}

std::pair<double, double> range_of(HyperParameter::Range range) {
  constexpr double kBelowOne = 0.999999, kAboveZero = 1e-30;
  if (range == HyperParameter::Range::below_one) return {0, kBelowOne};
  return {range == HyperParameter::Range::positive ? kAboveZero : 0, kMaxReal};
}

void add_hyper_parameter(SettingRows& rows, const HyperParameterRow& row) {
  const std::string name(row.of_first.name);
  std::string flag = name;
  std::ranges::replace(flag, '_', '-');
  const bool is_number = std::holds_alternative<float*>(row.of_first.value);
  Setting& setting = rows.custom(
      flag,
      is_number ? "X" : "",
      help_of(row),
      [name, is_number, flag](TrainFlags& flags, const std::string& text) {
        const HyperParameter parameter = *find(flags.options.optimizer, name);
        if (!is_number) {
          *std::get<bool*>(parameter.value) = to_bool("--" + flag, text);
          return;
        }
        const auto [min, max] = range_of(parameter.range);
        real_number("--" + flag, min, max)(text);
        *std::get<float*>(parameter.value) = float(to_real_number(text));
      },
      [name](const TrainFlags& flags) -> std::optional<std::string> {
        const std::string text = text_of(flags.options.optimizer, name);
        if (text.empty()) return std::nullopt;
        return text;
      });
  if (!is_number) setting.arity = Setting::Arity::flag;
  setting.shown_as(row.fallback).belongs_to("optimizer");
  setting.when({"optimizer",
                [owners = row.owners](const TrainFlags& flags, std::string_view) {
                  return std::ranges::count(owners, name_of(flags.options.optimizer)) > 0;
                },
                fmt::format("it belongs to --optimizer {}", fmt::join(row.owners, ", "))});
  if (name == "nesterov")
    setting.when({"momentum",
                  [](const TrainFlags& flags, std::string_view text) {
                    return (!text.empty() && !to_bool("--nesterov", std::string(text))) ||
                           text_of(flags.options.optimizer, "momentum") != "0";
                  },
                  "Nesterov momentum needs --momentum X, as in --momentum 0.9"});
}

void add_optimizers(SettingRows rows) {
  rows.custom(
          "optimizer",
          fmt::format("{}", fmt::join(optimizer_names(), "|")),
          "optimizer",
          [check = one_of("--optimizer", {optimizer_names().begin(), optimizer_names().end()})](
              TrainFlags& flags, const std::string& text) {
            check(text);
            // Another than the model's has its own defaults.
            if (name_of(flags.options.optimizer) != text)
              flags.options.optimizer = make_optimizer(text);
          },
          [](const TrainFlags& flags) { return std::string(name_of(flags.options.optimizer)); })
      .shown_as(kByModel)
      .belongs_to("optimizer");
  for (const HyperParameterRow& row : hyper_parameter_rows()) add_hyper_parameter(rows, row);
}

void set_milestones(TrainFlags& flags, const Texts& texts) {
  std::vector<std::int64_t>& steps = flags.options.lr_schedule.milestones;
  steps.clear();
  const auto check = whole_number("--milestones", 1, kMaxCount);
  for (const std::string& text : texts) {
    check(text);
    steps.push_back(to_whole_number(text));
  }
}

std::optional<Texts> milestone_texts(const TrainFlags& flags) {
  Texts texts;
  for (const std::int64_t step : flags.options.lr_schedule.milestones)
    texts.push_back(std::to_string(step));
  if (texts.empty()) return std::nullopt;
  return texts;
}

void add_schedule(SettingRows rows) {
  rows.choice("lr-schedule",
              LOCKSTEP_AT(options.lr_schedule.kind),
              Words<Kind>(std::begin(kLrSchedules), std::end(kLrSchedules)),
              "learning rate schedule")
      .shown_as(kByModel);
  const auto falls = with_schedule([](Kind kind) { return kind != Kind::constant; },
                                   "choose a schedule that decays, such as cosine");
  rows.real("min-lr",
            LOCKSTEP_AT(options.lr_schedule.min_lr),
            0,
            kMaxReal,
            "minimum learning rate of a schedule")
      .when(falls)
      .shown_as("0");
  rows.whole("decay-steps",
             LOCKSTEP_AT(options.lr_schedule.decay_steps),
             1,
             "steps of decay down to --min-lr: after warmup; wsd: the last ones of the run")
      .when(with_schedule(follows_run_length, "it belongs to schedules that decay over the run"))
      .shown_as("the rest; wsd: a fifth");
  rows.custom(
          "warmup-steps",
          "auto|N",
          "steps of linear warmup to --lr; auto: a twentieth of all steps, one-cycle: three tenths",
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
  rows.whole("step-every",
             LOCKSTEP_AT(options.lr_schedule.step_every),
             1,
             "step: steps between two decays")
      .when(with_schedule([](Kind kind) { return kind == Kind::step; },
                          "it belongs to --lr-schedule step"))
      .shown_as("a third");
  rows.real("step-factor",
            LOCKSTEP_AT(options.lr_schedule.step_factor),
            1e-9,
            1,
            "step, multi-step: factor of each decay (gamma)")
      .when(with_schedule([](Kind kind) { return kind == Kind::step || kind == Kind::multi_step; },
                          "it belongs to --lr-schedule step and multi-step"))
      .shown_as("0.1");
  rows.real("lr-power",
            LOCKSTEP_AT(options.lr_schedule.power),
            1e-9,
            1e6,
            "polynomial: exponent of the decay (power)")
      .when(with_schedule([](Kind kind) { return kind == Kind::polynomial; },
                          "it belongs to --lr-schedule polynomial"))
      .shown_as("1");
  Setting& milestones =
      rows.add("milestones", "N,N,...", "multi-step: steps at which the rate drops, rising");
  milestones.arity = Setting::Arity::list;
  milestones.commas = true;
  milestones.set = set_milestones;
  milestones.get = milestone_texts;
  milestones.when(with_schedule([](Kind kind) { return kind == Kind::multi_step; },
                                "it belongs to --lr-schedule multi-step"));
}

void add_weight_decay(SettingRows rows) {
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

void add_lr_scaling(SettingRows rows) {
  rows.whole(
          "lr-reference-batch",
          LOCKSTEP_AT(options.lr_scaling.reference_batch),
          1,
          "global batch that --lr is meant for: another one scales all rates, --min-lr and those "
          "of groups too")
      .shown_as("the run's");
  rows.choice("lr-scaling",
              LOCKSTEP_AT(options.lr_scaling.rule),
              Words<LrScaling::Rule>(std::begin(kLrScalingRules), std::end(kLrScalingRules)),
              "by global batch / --lr-reference-batch, or by its square root")
      .when(
          {"lr-reference-batch",
           [](const TrainFlags& flags, std::string_view) { return flags.options.lr_scaling.on(); },
           "set --lr-reference-batch, as in --lr-reference-batch 256"})
      .shown_as("linear");
}

void add_ema(SettingRows rows) {
  const Applies with_ema{
      "ema",
      [](const TrainFlags& flags, std::string_view) { return flags.options.ema.on(); },
      "set --ema, as in --ema 0.9999"};
  rows.real("ema",
            LOCKSTEP_AT(options.ema.decay),
            0,
            0.99999999,
            "exponential moving average of the weights: its decay a step; 0: none. Evaluated "
            "in addition to the weights, saved as ema.safetensors")
      .shown_as("0");
  rows.on_off("ema-warmup",
              LOCKSTEP_AT(options.ema.warmup),
              "decay of at most (1 + step) / (10 + step), so that the start is forgotten")
      .when(with_ema)
      .shown_as("on");
  rows.whole("ema-reference-batch",
             LOCKSTEP_AT(options.ema.reference_batch),
             1,
             "global batch that --ema is meant for: another one gets as long an average in samples")
      .when(with_ema)
      .shown_as("the run's");
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
  rows.text("class-weights",
            "balanced|FILE|W,W,...",
            LOCKSTEP_AT(class_weights),
            "factors of the loss by class, a number each; balanced: samples / (classes * samples "
            "of the class)")
      .when({"loss",
             [](const TrainFlags& flags, std::string_view) {
               return flags.loss == "auto" || flags.loss == "cross-entropy";
             },
             "it belongs to cross-entropy"})
      .when({"balance",
             [](const TrainFlags& flags, std::string_view text) {
               return text != "balanced" || !flags.balance_classes;
             },
             "classes that are drawn alike have equal weights"});
}

}  // namespace

void add_optimizer_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Optimizer");
  add_optimizers(rows);
  const std::size_t schedule = table.size();
  add_schedule(rows);
  for (std::size_t i = schedule; i < table.size(); ++i) table[i].belongs_to("lr-schedule");
  const std::size_t scaling = table.size();
  add_lr_scaling(rows);
  for (std::size_t i = scaling; i < table.size(); ++i) table[i].belongs_to("lr-scaling");
  add_weight_decay(rows);
  const std::size_t ema = table.size();
  add_ema(rows);
  for (std::size_t i = ema; i < table.size(); ++i) table[i].belongs_to("ema");
  add_loss(rows);
}

}  // namespace lockstep

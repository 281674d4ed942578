// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/settings_table.h"

namespace lockstep {

void add_distillation_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Optimizer");
  rows.text("teacher",
            "DIR",
            LOCKSTEP_AT(teacher),
            "a run's folder, whose model is the teacher: its answers are learned in addition to "
            "the labels (distillation)")
      .when({"loss",
             [](const TrainFlags& flags, std::string_view) {
               return flags.loss == "auto" || flags.loss == "cross-entropy";
             },
             "it belongs to cross-entropy"});
  const Applies taught{
      "teacher",
      [](const TrainFlags& flags, std::string_view) { return !flags.teacher.empty(); },
      "it belongs to --teacher DIR"};
  rows.choice("distillation",
              LOCKSTEP_AT(options.distillation.hard),
              Words<bool>{{"soft", false}, {"hard", true}},
              "soft: the teacher's probabilities at a temperature (Hinton et al. 2015); hard: its "
              "likeliest class (DeiT)")
      .when(taught)
      .shown_as("soft");
  rows.real("distillation-alpha",
            LOCKSTEP_AT(options.distillation.alpha),
            1e-6,
            1,
            "the teacher's share of the loss; the labels have the rest")
      .when(taught)
      .shown_as("0.5");
  rows.real("distillation-temperature",
            LOCKSTEP_AT(options.distillation.temperature),
            1e-3,
            1e6,
            "soft: what the logits of both are divided by before softmax")
      .when(taught)
      .when({"distillation",
             [](const TrainFlags& flags, std::string_view) {
               return !flags.options.distillation.hard;
             },
             "a hard teacher has no temperature"})
      .shown_as("3");
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "launcher/settings/flags.h"
#include "launcher/settings/table/setting.h"
#include "lockstep/sources.h"
#include "parallel/batch/run_settings.h"
#include "tests/launcher/flag_errors.h"
#include "tests/launcher/flag_names.h"

namespace lockstep {
namespace {

TEST(SettingsTable, ASettingComesAfterThoseThatDecideWhetherItApplies) {
  std::set<std::string> before;
  for (const Setting& setting : settings_table()) {
    for (const Applies& condition : setting.applies)
      EXPECT_TRUE(before.contains(condition.on)) << setting.name << " before " << condition.on;
    for (const std::string& other : setting.yields_to)
      EXPECT_NE(find_setting(other), nullptr) << setting.name << " yields to " << other;
    EXPECT_TRUE(before.insert(setting.name).second) << setting.name << " is there twice";
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
}

/// Flags in which each of the table's conditions holds somewhere.
std::vector<TrainFlags> kinds_of_runs() {
  std::vector<TrainFlags> runs;
  for (const Arguments& arguments :
       {Arguments{"--model=mlp", "--data=csv:x", "--weight-decay=0.1", "--momentum=0.5"},
        Arguments{"--model=resnet18", "--data=images:x", "--lr-schedule=step"},
        Arguments{"--model=gpt", "--data=tokens:x", "--loss=huber", "--init=x"}})
    runs.push_back(parse_train_flags(arguments));
  return runs;
}

TEST(SettingsTable, WhatASettingWritesItReads) {
  std::set<std::string> seen;
  for (const TrainFlags& run : kinds_of_runs()) {
    for (const Setting& setting : settings_table()) {
      if (broken_condition(setting, run, "") != nullptr) continue;
      const std::optional<Texts> texts = setting.get(run);
      if (!texts) continue;
      TrainFlags again = run;
      setting.set(again, *texts);
      EXPECT_EQ(setting.get(again), texts) << setting.name;
      seen.insert(setting.name);
    }
  }
  EXPECT_GT(seen.size(), 60u);
}

TEST(SettingsTable, RefusesWhatIsNotAValue) {
  // Those that take any text: names of files and of columns, and regular expressions.
  const std::set<std::string> of_text{"data", "init", "out", "resume"};
  for (const TrainFlags& run : kinds_of_runs())
    for (const Setting& setting : settings_table()) {
      if (broken_condition(setting, run, "") != nullptr || of_text.contains(setting.name) ||
          (setting.arity == Setting::Arity::list && setting.type == "NAME|N"))
        continue;
      TrainFlags changed = run;
      EXPECT_THROW(setting.set(changed, {"(no value"}), ConfigError) << setting.name;
    }
}

// What a resumed run is refused for is told by the flag that changed it.
TEST(SettingsTable, EveryKeyOfTheFingerprintHasItsFlags) {
  const TrainFlags run = parse_train_flags({"--steps=3"});
  const data::DataSplit data = data::open("glyphs", {});
  const BatchPlan batch{.global_batch = 8, .micro_batch = 4};
  const std::set<std::string> of_machine{"device class", "validation data content"};
  for (const auto& [key, value] :
       run_settings(run.options, batch, 3, run.options.lr_schedule, data, "cpu")) {
    const bool is_part =
        std::ranges::any_of(settings_table(), [&, &name = key](const Setting& setting) {
          return setting.name == name || setting.part_of == name;
        });
    EXPECT_TRUE(is_part || of_machine.contains(key)) << key;
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "core/optim/optimizer.h"
#include "launcher/settings/config_file.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/table/setting.h"
#include "lockstep/data/sources.h"
#include "parallel/batch/batch_plan.h"
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

/// Each of the table's conditions holds in one of them.
std::vector<Arguments> arguments_of_runs() {
  return {{"--model=mlp", "--data=csv:x", "--weight-decay=0.1", "--momentum=0.5"},
          {"--model=resnet18", "--data=images:x", "--lr-schedule=step", "--checkpoint-every=5"},
          {"--model=vit-ti16", "--data=images:x", "--augment=flip"},
          {"--model=vit-ti16", "--data=images:x", "--more-data=packed:x"},
          {"--model=resnet18", "--data=mnist:x", "--teacher=y"},
          {"--model=convnext-tiny", "--data=images:x"},
          {"--model=gpt", "--data=tokens:x", "--loss=huber", "--init=x"},
          {"--model=llama", "--data=tokens:x"},
          {"--lr-schedule=multi-step", "--milestones=3"},
          {"--lr-schedule=polynomial", "--ema=0.5", "--optimizer=rmsprop"},
          {"--optimizer=lars", "--lr-reference-batch=64"}};
}

std::vector<TrainFlags> kinds_of_runs() {
  std::vector<TrainFlags> runs;
  for (const Arguments& arguments : arguments_of_runs())
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
  const std::set<std::string> of_text{"algorithms",
                                      "class-weights",
                                      "data",
                                      "init",
                                      "more-data",
                                      "out",
                                      "resume",
                                      "teacher",
                                      "tokenizer"};
  for (const TrainFlags& run : kinds_of_runs())
    for (const Setting& setting : settings_table()) {
      if (broken_condition(setting, run, "") != nullptr || of_text.contains(setting.name) ||
          (setting.arity == Setting::Arity::list && setting.type == "NAME|N"))
        continue;
      TrainFlags changed = run;
      EXPECT_THROW(setting.set(changed, {"(no value"}), ConfigError) << setting.name;
    }
}

/// The values of a row that its type names, and some of every kind that a type may be.
std::vector<std::string> candidates_for(const Setting& setting) {
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < setting.type.size();) {
    const std::size_t end = std::min(setting.type.find('|', begin), setting.type.size());
    texts.push_back(setting.type.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const char* text : {"true",
                           "1",
                           "2",
                           "4",
                           "12",
                           "0.001",
                           "0.25",
                           "0.5",
                           "16MiB",
                           "90s",
                           "tab",
                           "^a",
                           "^a: lr=0.5, weight-decay=0",
                           "flip",
                           "group:16",
                           "32:1:4:8192",
                           "csv:y",
                           "images:y",
                           "tokens:y",
                           "glyphs",
                           "convnet"})
    texts.emplace_back(text);
  return texts;
}

std::optional<TrainFlags> parsed(const Arguments& arguments) {
  try {
    return parse_train_flags(arguments);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

/// Flags in which `setting` has a value other than in `arguments`; nothing: none is accepted there.
std::optional<TrainFlags> with_another_value(const Setting& setting, Arguments arguments) {
  const auto before = setting.get(parse_train_flags(arguments));
  arguments.emplace_back();
  for (const std::string& text : candidates_for(setting)) {
    arguments.back() = fmt::format("--{}={}", setting.name, text);
    const std::optional<TrainFlags> flags = parsed(arguments);
    if (flags && setting.get(*flags) && setting.get(*flags) != before) return flags;
  }
  return std::nullopt;
}

TEST(SettingsTable, EveryRowSurvivesAFile) {
  const std::string file = ::testing::TempDir() + "lockstep_every_row.toml";
  std::set<std::string> left;
  for (const Setting& setting : settings_table()) {
    if (!setting.saved) continue;
    left.insert(setting.name);
    for (const Arguments& arguments : arguments_of_runs()) {
      const std::optional<TrainFlags> flags = with_another_value(setting, arguments);
      if (!flags) continue;
      left.erase(setting.name);
      std::ofstream(file) << to_toml(*flags);
      const TrainFlags again = parse_train_flags({"--config", file});
      EXPECT_EQ(setting.get(again), setting.get(*flags)) << setting.name << " in\n"
                                                         << to_toml(*flags);
    }
  }
  std::filesystem::remove(file);
  EXPECT_THAT(left, ::testing::IsEmpty()) << "no run accepts a value of them";
}

TEST(SettingsTable, AHyperParameterHasTheRangeOfTheChosenOptimizer) {
  for (const std::string_view name : optimizer_names()) {
    TrainFlags flags = parse_train_flags({fmt::format("--optimizer={}", name)});
    Optimizer optimizer = make_optimizer(name);
    for (const OptimizerHyperParameter& parameter : hyper_parameters(optimizer)) {
      std::string flag(parameter.name);
      std::ranges::replace(flag, '_', '-');
      const Setting& setting = *find_setting(flag);
      EXPECT_THAT(setting.help, ::testing::HasSubstr(std::string(parameter.help))) << flag;
      if (!std::holds_alternative<float*>(parameter.value)) continue;
      using Range = OptimizerHyperParameter::Range;
      const auto accepts = [&](const char* text) {
        try {
          setting.set(flags, {text});
          return true;
        } catch (const ConfigError&) {
          return false;
        }
      };
      EXPECT_EQ(accepts("0"), parameter.range != Range::positive) << name << " " << flag;
      EXPECT_EQ(accepts("1"), parameter.range != Range::below_one) << name << " " << flag;
      EXPECT_FALSE(accepts("-1")) << name << " " << flag;
      EXPECT_TRUE(accepts("0.5")) << name << " " << flag;
    }
  }
}

TEST(SettingsTable, AMessageQuotesAUsersBackticksAndNamesItsFlags) {
  EXPECT_EQ(flag_of_parameter("accumulation"), "--accumulation");
  EXPECT_THAT(flag_error({"--model=my `accumulation` model"}),
              ::testing::HasSubstr("'my `accumulation` model'"));
  const TrainFlags flags =
      parse_train_flags({"--accumulation=3", "--global-batch=256", "--out=x`accumulation`"});
  EXPECT_EQ(flags.out, "x`accumulation`");
  try {
    plan_batch(flags.options, 1);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--accumulation 3"));
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

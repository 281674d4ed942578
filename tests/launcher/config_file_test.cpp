// SPDX-License-Identifier: Apache-2.0
// Files of flags: --config, and the config.toml that a run writes.
#include "launcher/settings/config_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/settings/flags.h"
#include "launcher/settings/read_settings.h"
#include "tests/launcher/flag_errors.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TomlFile {
 public:
  explicit TomlFile(const std::string& text)
      : path_(testing::TempDir() + "lockstep_flags_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml") {
    std::ofstream(path_) << text;
  }
  ~TomlFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// As versions before the recipes wrote it.
TEST(ConfigFile, AnOldConfigurationKeepsItsMeaning) {
  const TomlFile file(
      "model = \"convnet\"\ndata = \"glyphs\"\noptimizer = \"sgd\"\nlr = 0.1\nmomentum = 0\n"
      "nesterov = false\nweight-decay = 0\nclip-norm = 0\nlr-schedule = \"constant\"\n"
      "warmup-steps = 0\n");
  const TrainOptions options = parse_train_flags({"--config", file.path()}).options;
  EXPECT_EQ(to_string(options.optimizer), to_string(Sgd{}));
  EXPECT_EQ(to_string(options.lr_schedule), to_string(LrSchedule{}));
  EXPECT_EQ(options.lr_schedule.warmup_ratio, 0);
  EXPECT_EQ(options.clip_norm, 0);
}

TEST(ConfigFile, TypedClippingWinsOverAnyOfTheFile) {
  constexpr const char* kFlags[] = {"clip-norm", "clip-value", "clip-agc"};
  for (const char* saved : kFlags)
    for (const char* typed : kFlags) {
      const TomlFile file(to_toml(parse_train_flags({fmt::format("--{}=0.25", saved)})));
      const TrainOptions options =
          parse_train_flags({"--config", file.path(), fmt::format("--{}=0.5", typed)}).options;
      const float values[] = {options.clip_norm, options.clip_value, options.clip_agc};
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(values[i], std::string_view(typed) == kFlags[i] ? 0.5f : 0.0f) << saved << typed;
      EXPECT_EQ(to_toml(parse_train_flags({"--config", file.path()})),
                to_toml(parse_train_flags({fmt::format("--{}=0.25", saved)})));
    }
}

TEST(ConfigFile, ConfigurationFile) {
  const TomlFile file(
      "model = \"mlp\"\nhidden = [8, 4]\nlr = 0.25\nepochs = 3\nnesterov = true\n"
      "momentum = 0.5\n");
  const TrainFlags flags = parse_train_flags({"--config", file.path(), "--lr=0.5"});
  EXPECT_EQ(flags.model.hidden, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(std::get<Sgd>(flags.options.optimizer).lr, 0.5f);
  EXPECT_TRUE(std::get<Sgd>(flags.options.optimizer).nesterov);
  EXPECT_EQ(flags.options.epochs, 3);
  const TrainFlags steps = parse_train_flags({"--config=" + file.path(), "--steps", "9"});
  EXPECT_EQ(steps.options.steps, 9);
  EXPECT_EQ(steps.options.epochs, 0);
}

TEST(ConfigFile, TruthValuesAreThoseOfTheCommandLine) {
  for (const char* yes : {"true", "'Yes'", "ON", "enable", "\"y\"", "1"}) {
    const TomlFile file(std::string("skip-bad-samples = ") + yes + "\n");
    EXPECT_TRUE(parse_train_flags({"--config", file.path()}).options.skip_bad_samples) << yes;
  }
  for (const char* no : {"false", "'No'", "OFF", "disable", "n", "0"}) {
    const TomlFile file(std::string("skip-bad-samples = ") + no + "\n");
    EXPECT_FALSE(parse_train_flags({"--config", file.path()}).options.skip_bad_samples) << no;
  }
}

TEST(ConfigFile, ConfigurationFileIsChecked) {
  const TomlFile unknown("learning-rat = 1\nmomentun = 0.5\n");
  EXPECT_THAT(flag_error({"--config", unknown.path()}), HasSubstr("unknown key learning-rat"));
  const TomlFile misspelt("momentun = 0.5\n");
  EXPECT_THAT(flag_error({"--config", misspelt.path()}), HasSubstr("did you mean momentum?"));
  EXPECT_THAT(flag_error({"--config", "/nowhere/x.toml"}), HasSubstr("no such file"));
  EXPECT_THAT(flag_error({"--config", testing::TempDir()}), HasSubstr("not a readable file"));
}

TEST(ConfigFile, ARefusedValueNamesItsFileAndLine) {
  const TomlFile wrong("# a comment\nlr = abc\n");
  const std::string named = "--config " + wrong.path() + ", line 2";
  EXPECT_THAT(flag_error({"--config", wrong.path()}),
              AllOf(HasSubstr(named), HasSubstr("--lr"), HasSubstr("abc")));
  EXPECT_THAT(flag_error({"--lr=abc"}), Not(HasSubstr("line")));
  const TomlFile out_of_place("model = 'mlp'\noptimizer = 'adamw'\nmomentum = 0.5\n");
  EXPECT_THAT(flag_error({"--config", out_of_place.path()}),
              AllOf(HasSubstr(out_of_place.path() + ", line 3"), HasSubstr("--momentum")));
  const TomlFile empty("out = ''\n");
  EXPECT_THAT(flag_error({"--config", empty.path()}), HasSubstr(empty.path() + ", line 1"));
}

// A run that is resumed, or whose weights are used: the user did not type --config.
TEST(ConfigFile, AFileThatNobodyNamedIsNamedWithoutItsFlag) {
  for (const char* text : {"lr = abc\n", "lr = \n", "momentun = 1\n", "out = ''\n"}) {
    const TomlFile wrong(text);
    try {
      parse_saved_flags(wrong.path(), {});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(wrong.path()), Not(HasSubstr("--config"))));
    }
    EXPECT_THAT(flag_error({"--config", wrong.path()}), HasSubstr("--config " + wrong.path()));
  }
}

TEST(ConfigFile, WrittenConfigurationRepeatsTheRun) {
  const std::vector<Arguments> runs = {
      {},
      {"--model=mlp", "--hidden=none", "--data=csv:a b.csv", "--val-fraction=0.25", "--seed=9"},
      {"--model=mlp",
       "--data=csv:a.csv",
       "--task=multi-label",
       "--label-column=first, or last",
       "--label-column=-1",
       "--separator=tab",
       "--missing=median",
       "--drop=a#b",
       "--drop=2",
       "--id-column=id",
       "--categorical=zip, or code"},
      {"--model=resnet18",
       "--stem=cifar",
       "--batch-norm=group:16",
       "--optimizer=adamw",
       "--lr=3e-4",
       "--no-decay=\\.bias$",
       "--lr-schedule=step",
       "--step-every=10",
       "--warmup-steps=5",
       "--samples=1000",
       "--augment=shift:1,flip",
       "--init=a b.safetensors",
       "--init-skip=^fc\\.",
       "--freeze=^conv",
       "--freeze=^bn",
       "--shards=4"},
      {"--data=images:photos",
       "--image-size=32",
       "--max-pixels=1000000",
       "--val-fraction=0.1",
       "--augment=resized-crop:0.25,flip",
       "--skip-bad-samples"},
      {"--momentum=0.9",
       "--nesterov",
       "--weight-decay=5e-4",
       "--decay-all",
       "--ranks=2",
       "--lr-schedule=cosine",
       "--min-lr=0.001",
       "--accumulation=2",
       "--overlap=off",
       "--reduction=fast",
       "--workers=3",
       "--epochs=0.5",
       "--clip-norm=1",
       "--on-nonfinite=skip",
       "--on-spike=rollback",
       "--checkpoint-every=100",
       "--label-smoothing=0.1"},
      {"--loss=huber", "--huber-delta=0.25"},
      {"--clip-value=0.5", "--lr-reference-batch=64", "--lr-scaling=sqrt"},
      {"--model=gpt", "--data=text:x", "--clip-agc=0.01"},
      {"--loss=bce"}};
  for (const Arguments& arguments : runs) {
    const std::string text = to_toml(parse_train_flags(arguments));
    const TomlFile file(text);
    EXPECT_EQ(to_toml(parse_train_flags({"--config", file.path()})), text);
  }
}

// A run without --shards has at most 64, which versions before recorded as auto.
TEST(ConfigFile, ShardsThatARunRecordedAsAutoAreTheDefault) {
  EXPECT_EQ(parse_train_flags({}).options.shards, 0);
  EXPECT_EQ(parse_train_flags({"--shards=auto"}).options.shards, kAutoShards);
  const TomlFile typed("shards = \"auto\"\n");
  EXPECT_EQ(parse_train_flags({"--config", typed.path()}).options.shards, kAutoShards);
  const std::string written = to_toml(parse_train_flags({}));
  EXPECT_THAT(written, Not(HasSubstr("shards")));
  const TomlFile recorded(written + "shards = \"auto\"\n");
  EXPECT_EQ(parse_train_flags({"--config", recorded.path()}).options.shards, 0);
  EXPECT_EQ(parse_saved_flags(recorded.path(), {}).options.shards, 0);
  EXPECT_EQ(parse_train_flags({"--config", recorded.path(), "--shards=auto"}).options.shards,
            kAutoShards);
}

TEST(ConfigFile, ValuesWithSpecialCharactersAreWrittenAndReadBack) {
  for (const std::string value : {"a#b",
                                  "say \"x\"",
                                  "it's",
                                  "both ' and \"",
                                  "a, b",
                                  "\\.bias\\\\$",
                                  "a{2}",
                                  "[ab]",
                                  "two\nlines\t",
                                  "caf\xC3\xA9",
                                  "a = b"}) {
    const TrainFlags flags = parse_train_flags({"--model=mlp",
                                                "--data=csv:" + value,
                                                "--no-decay=" + value,
                                                "--no-decay=x",
                                                "--weight-decay=1"});
    const std::string text = to_toml(flags);
    const TomlFile file(text);
    const TrainFlags again = parse_train_flags({"--config", file.path()});
    EXPECT_EQ(again.data, "csv:" + value);
    EXPECT_EQ(again.options.no_decay, (Arguments{value, "x"}));
    EXPECT_EQ(to_toml(again), text);
  }
}

TEST(ConfigFile, ConfigurationFileIsToml) {
  const TomlFile file(
      "\xEF\xBB\xBF# a run\r\n\"model\" = \"mlp\"  # the model\r\nhidden = [\n  8, # first\n  "
      "4,\n]\ndata = \"csv:a\\u00e9\\\"#\\\"\"\nlr=0.25");
  const TrainFlags flags = parse_train_flags({"--config", file.path()});
  EXPECT_EQ(flags.model.hidden, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(flags.data, "csv:a\xC3\xA9\"#\"");
  EXPECT_EQ(std::get<Sgd>(flags.options.optimizer).lr, 0.25f);
}

TEST(ConfigFile, ConfigurationFileThatIsNoToml) {
  const auto error_in = [](const std::string& text) {
    const TomlFile file(text);
    return flag_error({"--config", file.path()});
  };
  EXPECT_THAT(error_in("[train]\nlr = 1\n"),
              AllOf(HasSubstr("line 1: sections have no meaning"), HasSubstr("[train]")));
  EXPECT_THAT(error_in("lr = 1\nlr = 2\n"), HasSubstr("line 2: key lr is given twice"));
  EXPECT_THAT(error_in("lr\n"), HasSubstr("line 1: expected '=' after lr"));
  EXPECT_THAT(error_in("\nlr =\n"), HasSubstr(".toml, line 2: expected a value for lr"));
  EXPECT_THAT(error_in("data = 'csv:a\n"), HasSubstr("no closing quote"));
  EXPECT_THAT(error_in("data = \"csv:\\d\"\n"), HasSubstr("single quotes"));
  EXPECT_THAT(error_in("data = \"\\ud800\"\n"), HasSubstr("four hexadecimal digits"));
  EXPECT_THAT(error_in("hidden = [1, 2"), HasSubstr("',' or ']'"));
  EXPECT_THAT(error_in("hidden = []"), HasSubstr("empty"));
  EXPECT_THAT(error_in("lr = 1 2\n"), HasSubstr("end of the line"));
  EXPECT_THAT(error_in("model = 'mlp'\nstem = 'cifar'\n"), HasSubstr("--stem cannot be combined"));
}

// As names of files may be, and as users write words.
TEST(ConfigFile, KeepsBytesThatAreNotUtf8AndWordsWithoutQuotes) {
  const std::string text = to_toml(parse_train_flags({"--model=mlp", "--data=csv:caf\xE9.csv"}));
  const TomlFile file(text);
  EXPECT_EQ(parse_train_flags({"--config", file.path()}).data, "csv:caf\xE9.csv");
  const TomlFile bare("model = mlp\nrecompute = none\nprecision = bf16\nmemory-limit = 16GiB\n");
  const TrainOptions options = parse_train_flags({"--config", bare.path()}).options;
  EXPECT_EQ(options.recompute, Recompute::none);
  EXPECT_EQ(options.precision, Precision::bf16);
  EXPECT_EQ(options.memory_limit, std::uint64_t{16} << 30);
}

TEST(ConfigFile, TheCommandLineWinsOverTheFile) {
  const TomlFile file(to_toml(parse_train_flags({"--model=mlp",
                                                 "--hidden=8",
                                                 "--data=csv:a",
                                                 "--val-fraction=0.5",
                                                 "--momentum=0.9",
                                                 "--nesterov",
                                                 "--weight-decay=1",
                                                 "--decay-all",
                                                 "--lr-schedule=step",
                                                 "--step-every=5",
                                                 "--epochs=2"})));
  const TrainFlags flags = parse_train_flags({"--config",
                                              file.path(),
                                              "--model=convnet",
                                              "--data=glyphs",
                                              "--optimizer=adamw",
                                              "--weight-decay=0",
                                              "--lr-schedule=constant",
                                              "--samples=100",
                                              "--global-batch=16"});
  EXPECT_EQ(flags.model.name, "convnet");
  EXPECT_TRUE(std::holds_alternative<AdamW>(flags.options.optimizer));
  EXPECT_EQ(flags.options.samples, 100);
  EXPECT_EQ(flags.options.epochs, 0);
  EXPECT_EQ(flags.options.micro_batch, 8);
  EXPECT_FALSE(flags.options.decay_all);
  EXPECT_THAT(flag_error({"--config", file.path(), "--optimizer=adamw", "--momentum=0.5"}),
              HasSubstr("--momentum cannot be combined"));
  EXPECT_THAT(flag_error({"--config", file.path(), "--steps=3", "--samples=2"}),
              HasSubstr("--samples cannot be combined"));
}

TEST(ConfigFile, ALossOnTheCommandLineDropsWhatBelongsToTheOneInTheFile) {
  const TomlFile huber(to_toml(parse_train_flags({"--loss=huber", "--huber-delta=0.25"})));
  EXPECT_EQ(parse_train_flags({"--config", huber.path()}).huber_delta, 0.25f);
  EXPECT_EQ(parse_train_flags({"--config", huber.path(), "--loss=huber"}).huber_delta, 0.25f);
  const TrainFlags mae = parse_train_flags({"--config", huber.path(), "--loss=mae"});
  EXPECT_EQ(mae.loss, "mae");
  EXPECT_EQ(mae.huber_delta, 1.0f);
  EXPECT_THAT(flag_error({"--config", huber.path(), "--loss=mae", "--huber-delta=2"}),
              HasSubstr("--huber-delta cannot be combined"));
  const TomlFile smoothed(to_toml(parse_train_flags({"--label-smoothing=0.1"})));
  EXPECT_EQ(parse_train_flags({"--config", smoothed.path(), "--loss=mse"}).label_smoothing, 0.0f);
  EXPECT_EQ(parse_train_flags({"--config", smoothed.path(), "--loss=auto"}).label_smoothing, 0.1f);
}

TEST(ConfigFile, ListsInOneStringAndTruthValuesThatAreOff) {
  const TomlFile sizes("model = 'mlp'\nhidden = '64,32'\nnesterov = 'off'\n");
  const TrainFlags flags = parse_train_flags({"--config", sizes.path()});
  EXPECT_EQ(flags.model.hidden, (std::vector<std::int64_t>{64, 32}));
}

TEST(ConfigFile, ValuesAreWrittenAsTomlHasThem) {
  EXPECT_THAT(to_toml(parse_train_flags({"--checkpoint-every=0500"})),
              HasSubstr("checkpoint-every = '0500'"));
  EXPECT_THAT(to_toml(parse_train_flags({"--lr=0.02"})), HasSubstr("\nlr = 0.02\n"));
}

TEST(ConfigFile, AnEmptyPathOfTheFileIsNotReadWhereOneIsTyped) {
  const TomlFile file("out = ''\n");
  EXPECT_EQ(parse_train_flags({"--config", file.path(), "--out=x"}).out, "x");
}

TEST(ConfigFile, AnErrorSaysWhichOfItsParametersTheFileSet) {
  const TomlFile file("model = 'mlp'\nmicro-batch = 48\nglobal-batch = 96\n");
  const TrainFlags flags = parse_train_flags({"--config", file.path(), "--global-batch=64"});
  ConfigError error("`micro_batch` 48 is not a divisor of `global_batch` 64", "change `epochs`");
  add_origins(error, flags);
  EXPECT_THAT(error.hint(), HasSubstr("--micro-batch 48 is from --config " + file.path()));
  EXPECT_THAT(error.hint(), HasSubstr("line 2"));
  EXPECT_THAT(error.hint(), Not(HasSubstr("global-batch")));
  ConfigError typed("`global_batch` is too large");
  add_origins(typed, flags);
  EXPECT_EQ(typed.hint(), "");
}

}  // namespace
}  // namespace lockstep

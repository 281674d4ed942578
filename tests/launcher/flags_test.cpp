// SPDX-License-Identifier: Apache-2.0
#include "launcher/flags.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Arguments = std::vector<std::string>;

std::string error_of(const Arguments& arguments) {
  try {
    parse_train_flags(arguments);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

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

TEST(Flags, DefaultsAreThoseOfTheInterface) {
  const TrainFlags flags = parse_train_flags({});
  EXPECT_EQ(flags.model.name, "convnet");
  EXPECT_EQ(flags.data, "glyphs");
  EXPECT_EQ(flags.options.global_batch, 256);
  EXPECT_EQ(flags.options.micro_batch, 32);
  EXPECT_EQ(flags.options.epochs, 1);
  EXPECT_EQ(flags.options.steps, 0);
  EXPECT_EQ(std::get<Sgd>(flags.options.optimizer).momentum, 0.9f);
  EXPECT_EQ(flags.options.lr_schedule.kind, LrSchedule::Kind::cosine);
  EXPECT_EQ(flags.options.lr_schedule.warmup_ratio, 0.05f);
}

TEST(Flags, EachModelHasItsRecipe) {
  const auto words = [](const Arguments& arguments) {
    const TrainOptions options = parse_train_flags(arguments).options;
    return fmt::format("{}, {} ratio={} clip={}",
                       to_string(options.optimizer),
                       to_string(options.lr_schedule),
                       options.lr_schedule.warmup_ratio,
                       options.clip_norm);
  };
  const std::string cosine = "cosine warmup=0 decay=0 every=0 factor=0.1 min_lr=0 ratio=0.05";
  const std::string constant = "constant warmup=0 decay=0 every=0 factor=0.1 min_lr=0 ratio=0";
  const auto sgd = [](float lr, float momentum, float decay) {
    return to_string(Sgd{.lr = lr, .momentum = momentum, .weight_decay = decay}) + ", ";
  };
  const auto adamw = [](float lr, float beta2, float decay) {
    return to_string(AdamW{.lr = lr, .beta2 = beta2, .weight_decay = decay}) + ", ";
  };
  EXPECT_EQ(words({"--model=mlp"}), sgd(0.1f, 0, 0) + constant + " clip=0");
  EXPECT_EQ(words({"--model=convnet"}), sgd(0.02f, 0.9f, 5e-4f) + cosine + " clip=0");
  EXPECT_EQ(words({"--model=resnet50"}), sgd(0.1f, 0.9f, 1e-4f) + cosine + " clip=0");
  EXPECT_EQ(words({"--model=vgg11"}), sgd(0.01f, 0.9f, 5e-4f) + cosine + " clip=0");
  EXPECT_EQ(words({"--model=gpt", "--data=text:x"}),
            adamw(1e-3f, 0.99f, 0.1f) + cosine + " clip=1");
  EXPECT_EQ(words({"--model=gpt2-124m", "--data=text:x"}),
            adamw(6e-4f, 0.95f, 0.1f) + cosine + " clip=1");
  // What is typed wins, flag by flag; another optimizer has its own defaults.
  EXPECT_EQ(words({"--lr=0.3", "--lr-schedule=constant", "--warmup-steps=0"}),
            sgd(0.3f, 0.9f, 5e-4f) + constant + " clip=0");
  EXPECT_EQ(words({"--optimizer=adamw"}), to_string(AdamW{}) + ", " + cosine + " clip=0");
  EXPECT_EQ(words({"--model=gpt", "--data=text:x", "--optimizer=sgd", "--clip-norm=0"}),
            to_string(Sgd{}) + ", " + cosine + " clip=0");
}

// As versions before the recipes wrote it.
TEST(Flags, AnOldConfigurationKeepsItsMeaning) {
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

TEST(Flags, BothFormsOfAFlag) {
  const TrainFlags flags = parse_train_flags({"--model=mlp",
                                              "--hidden=10,20",
                                              "--lr",
                                              "0.5",
                                              "--momentum=0.9",
                                              "--nesterov",
                                              "--steps",
                                              "7",
                                              "--no-decay",
                                              "a.*",
                                              "--no-decay=b",
                                              "--weight-decay=1e-3"});
  EXPECT_EQ(flags.model.hidden, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(flags.options.steps, 7);
  EXPECT_EQ(flags.options.epochs, 0);
  const Sgd& sgd = std::get<Sgd>(flags.options.optimizer);
  EXPECT_EQ(sgd.lr, 0.5f);
  EXPECT_EQ(sgd.momentum, 0.9f);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(flags.options.no_decay, (Arguments{"a.*", "b"}));
}

TEST(Flags, UnknownNamesOfferTheNearest) {
  EXPECT_THAT(error_of({"--modle", "mlp"}),
              AllOf(HasSubstr("unknown flag --modle"), HasSubstr("did you mean --model?")));
  EXPECT_THAT(error_of({"--glob_batch=3"}), HasSubstr("did you mean --global-batch?"));
  EXPECT_THAT(error_of({"--batch=3"}), HasSubstr("--micro-batch"));
  EXPECT_EQ(parse_train_flags({"--global_batch=48"}).options.global_batch, 48);
  EXPECT_THAT(error_of({"--model", "convent"}),
              AllOf(HasSubstr("unknown model 'convent'"), HasSubstr("--model convnet?")));
  EXPECT_THAT(error_of({"--optimizer", "adam"}), HasSubstr("--optimizer adamw?"));
  EXPECT_THAT(error_of({"--lr-schedule", "cosin"}), HasSubstr("--lr-schedule cosine?"));
  EXPECT_THAT(error_of({"--reduction=quick"}), HasSubstr("reproducible or fast"));
  EXPECT_THAT(error_of({"extra"}), HasSubstr("unexpected argument 'extra'"));
}

TEST(Flags, ValuesThatAreNone) {
  EXPECT_THAT(error_of({"--lr", "fast"}), HasSubstr("--lr is 'fast'"));
  EXPECT_THAT(error_of({"--lr", "nan"}), HasSubstr("--lr is 'nan'"));
  EXPECT_THAT(error_of({"--lr=-0.1"}), HasSubstr("--lr is '-0.1'"));
  EXPECT_THAT(error_of({"--steps", "0"}), HasSubstr("--steps is '0'"));
  EXPECT_THAT(error_of({"--global-batch=1e3"}), HasSubstr("whole number"));
  EXPECT_THAT(error_of({"--global-batch", "99999999999999999999"}), HasSubstr("whole number"));
  EXPECT_THAT(error_of({"--ranks", "all"}), HasSubstr("expected 'auto' or a whole number"));
  EXPECT_THAT(error_of({"--hidden", "10,x", "--model=mlp"}), HasSubstr("'x'"));
  EXPECT_THAT(error_of({"--dropout", "1"}), HasSubstr("--dropout is '1'"));
  EXPECT_THAT(error_of({"--no-decay", "(", "--weight-decay=1"}), HasSubstr("regular expression"));
  EXPECT_THAT(error_of({"--lr"}), HasSubstr("--lr"));
}

TEST(Flags, Contradictions) {
  EXPECT_THAT(error_of({"--optimizer=adamw", "--momentum=0.9"}),
              HasSubstr("--momentum has no meaning with --optimizer adamw"));
  EXPECT_THAT(error_of({"--beta1=0.8"}), HasSubstr("--beta1 has no meaning with --optimizer sgd"));
  EXPECT_THAT(error_of({"--model=resnet18", "--hidden=10"}), HasSubstr("--hidden has no meaning"));
  EXPECT_THAT(error_of({"--stem=cifar"}), HasSubstr("--stem has no meaning with --model convnet"));
  EXPECT_THAT(error_of({"--model=mlp", "--batch-norm=sync"}), HasSubstr("no batch norm"));
  EXPECT_THAT(error_of({"--steps=3", "--epochs=2"}), HasSubstr("--steps has no meaning with"));
  EXPECT_THAT(error_of({"--steps=3", "--samples=2"}), HasSubstr("--samples has no meaning with"));
  EXPECT_THAT(error_of({"--model=mlp", "--min-lr=0.01"}), HasSubstr("--min-lr has no meaning"));
  EXPECT_THAT(error_of({"--lr-schedule=cosine", "--step-every=2"}), HasSubstr("--step-every"));
  EXPECT_THAT(error_of({"--model=mlp", "--no-decay=x"}), HasSubstr("weight decay 0"));
  EXPECT_THAT(error_of({"--decay-all", "--no-decay=x", "--weight-decay=1"}),
              HasSubstr("give one of the two"));
  EXPECT_THAT(error_of({"--val-fraction=0.1"}), HasSubstr("--val-fraction has no meaning"));
  EXPECT_THAT(error_of({"--data=csv:a", "--augment=flip"}), HasSubstr("--augment has no meaning"));
  EXPECT_THAT(error_of({"--data=glyphs", "--drop=a"}), HasSubstr("--drop has no meaning"));
  EXPECT_THAT(error_of({"--model=mlp", "--data=csv:a", "--separator=.."}),
              HasSubstr("--separator '..': expected auto, tab or one character"));
  EXPECT_THAT(error_of({"--image-size=32"}), HasSubstr("--image-size has no meaning"));
  EXPECT_THAT(error_of({"--augment=resized-crop"}), HasSubstr("resized-crop has no meaning"));
  EXPECT_THAT(error_of({"--data=images:x", "--augment=resized-crop:2"}),
              HasSubstr("expected a share of 0.001 to 1"));
  EXPECT_THAT(error_of({"--global-batch=16", "--micro-batch=32"}),
              HasSubstr("--micro-batch 32 is larger than --global-batch 16"));
  EXPECT_THAT(error_of({"--model=mlp", "--nesterov"}), HasSubstr("esterov"));
  for (const std::string every : {"0", "10m"})
    EXPECT_THAT(error_of({"--on-spike=rollback", "--checkpoint-every=" + every}),
                HasSubstr("alone, and --checkpoint-every is " + every));
}

TEST(Flags, WhatFollowsABadStep) {
  EXPECT_EQ(parse_train_flags({}).options.on_nonfinite, OnNonfinite::stop);
  EXPECT_EQ(parse_train_flags({}).options.on_spike, OnSpike::ignore);
  const TrainFlags flags = parse_train_flags(
      {"--on-nonfinite", "skip", "--on-spike", "rollback", "--checkpoint-every", "100"});
  EXPECT_EQ(flags.options.on_nonfinite, OnNonfinite::skip);
  EXPECT_EQ(flags.options.on_spike, OnSpike::rollback);
  EXPECT_THAT(error_of({"--on-spike=rolback"}), HasSubstr("--on-spike rollback?"));
}

// Whether there is such a device is asked when one is opened: what a run on a GPU has learned is
// looked at on machines without one.
TEST(Flags, DevicesAreNotLookedFor) {
  EXPECT_EQ(parse_train_flags({"--device=cuda"}).device, "cuda");
  EXPECT_EQ(parse_train_flags({"--device=cpu"}).device, "cpu");
}

TEST(Flags, ConfigurationFile) {
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

TEST(Flags, ConfigurationFileIsChecked) {
  const TomlFile unknown("learning-rat = 1\nmomentun = 0.5\n");
  EXPECT_THAT(error_of({"--config", unknown.path()}), HasSubstr("unknown key learning-rat"));
  const TomlFile misspelt("momentun = 0.5\n");
  EXPECT_THAT(error_of({"--config", misspelt.path()}), HasSubstr("did you mean momentum?"));
  EXPECT_THAT(error_of({"--config", "/nowhere/x.toml"}), HasSubstr("no such file"));
  EXPECT_THAT(error_of({"--config", testing::TempDir()}), HasSubstr("not a readable file"));
}

TEST(Flags, WrittenConfigurationRepeatsTheRun) {
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
      {"--loss=bce"}};
  for (const Arguments& arguments : runs) {
    const std::string text = to_toml(parse_train_flags(arguments));
    const TomlFile file(text);
    EXPECT_EQ(to_toml(parse_train_flags({"--config", file.path()})), text);
  }
}

TEST(Flags, ValuesWithSpecialCharactersAreWrittenAndReadBack) {
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

TEST(Flags, ConfigurationFileIsToml) {
  const TomlFile file(
      "\xEF\xBB\xBF# a run\r\n\"model\" = \"mlp\"  # the model\r\nhidden = [\n  8, # first\n  "
      "4,\n]\ndata = \"csv:a\\u00e9\\\"#\\\"\"\nlr=0.25");
  const TrainFlags flags = parse_train_flags({"--config", file.path()});
  EXPECT_EQ(flags.model.hidden, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(flags.data, "csv:a\xC3\xA9\"#\"");
  EXPECT_EQ(std::get<Sgd>(flags.options.optimizer).lr, 0.25f);
}

TEST(Flags, ConfigurationFileThatIsNoToml) {
  const auto error_in = [](const std::string& text) {
    const TomlFile file(text);
    return error_of({"--config", file.path()});
  };
  EXPECT_THAT(error_in("[train]\nlr = 1\n"),
              AllOf(HasSubstr("line 1: sections have no meaning"), HasSubstr("[train]")));
  EXPECT_THAT(error_in("lr = 1\nlr = 2\n"), HasSubstr("line 2: key lr is given twice"));
  EXPECT_THAT(error_in("lr\n"), HasSubstr("line 1: expected '=' behind lr"));
  EXPECT_THAT(error_in("\nlr =\n"), HasSubstr("line 2: expected a value"));
  EXPECT_THAT(error_in("data = 'csv:a\n"), HasSubstr("no closing quote"));
  EXPECT_THAT(error_in("data = \"csv:\\d\"\n"), HasSubstr("single quotes"));
  EXPECT_THAT(error_in("data = \"\\ud800\"\n"), HasSubstr("four hexadecimal digits"));
  EXPECT_THAT(error_in("hidden = [1, 2"), HasSubstr("',' or ']'"));
  EXPECT_THAT(error_in("hidden = []"), HasSubstr("empty"));
  EXPECT_THAT(error_in("lr = 1 2\n"), HasSubstr("end of the line"));
  EXPECT_THAT(error_in("model = 'mlp'\nstem = 'cifar'\n"), HasSubstr("--stem has no meaning"));
}

TEST(Flags, TheCommandLineWinsOverTheFile) {
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
  EXPECT_THAT(error_of({"--config", file.path(), "--optimizer=adamw", "--momentum=0.5"}),
              HasSubstr("--momentum has no meaning"));
  EXPECT_THAT(error_of({"--config", file.path(), "--steps=3", "--samples=2"}),
              HasSubstr("--samples has no meaning"));
}

TEST(Flags, ALossOnTheCommandLineDropsWhatBelongsToTheOneInTheFile) {
  const TomlFile huber(to_toml(parse_train_flags({"--loss=huber", "--huber-delta=0.25"})));
  EXPECT_EQ(parse_train_flags({"--config", huber.path()}).huber_delta, 0.25f);
  EXPECT_EQ(parse_train_flags({"--config", huber.path(), "--loss=huber"}).huber_delta, 0.25f);
  const TrainFlags mae = parse_train_flags({"--config", huber.path(), "--loss=mae"});
  EXPECT_EQ(mae.loss, "mae");
  EXPECT_EQ(mae.huber_delta, 1.0f);
  EXPECT_THAT(error_of({"--config", huber.path(), "--loss=mae", "--huber-delta=2"}),
              HasSubstr("--huber-delta has no meaning"));
  const TomlFile smoothed(to_toml(parse_train_flags({"--label-smoothing=0.1"})));
  EXPECT_EQ(parse_train_flags({"--config", smoothed.path(), "--loss=mse"}).label_smoothing, 0.0f);
  EXPECT_EQ(parse_train_flags({"--config", smoothed.path(), "--loss=auto"}).label_smoothing, 0.1f);
}

TEST(Flags, Losses) {
  EXPECT_EQ(parse_train_flags({}).loss, "auto");
  EXPECT_THAT(error_of({"--loss=l2"}), HasSubstr("--loss"));
  EXPECT_THAT(error_of({"--huber-delta=2"}), HasSubstr("--huber-delta has no meaning"));
  for (const std::string delta : {"0", "-1", "nan", "1e39"})
    EXPECT_THAT(error_of({"--loss=huber", "--huber-delta=" + delta}), HasSubstr("--huber-delta"));
}

TEST(Flags, TheLastOfRepeatedFlagsCounts) {
  const TrainFlags flags =
      parse_train_flags({"--lr=1", "--seed=2", "--lr", "0.5", "--seed=3", "--force", "--force"});
  EXPECT_EQ(std::get<Sgd>(flags.options.optimizer).lr, 0.5f);
  EXPECT_EQ(flags.options.seed, 3u);
  EXPECT_TRUE(flags.force);
}

TEST(Flags, NumbersThatWouldOverflow) {
  EXPECT_THAT(error_of({"--clip-norm=1e300"}), HasSubstr("--clip-norm is '1e300'"));
  EXPECT_THAT(error_of({"--lr=3.5e38"}), HasSubstr("--lr is '3.5e38'"));
  EXPECT_THAT(error_of({"--workers=4294967297"}), HasSubstr("--workers is '4294967297'"));
  EXPECT_THAT(error_of({"--global-batch=4611686018427387904"}), HasSubstr("whole number"));
  EXPECT_THAT(error_of({"--shards=4294967297"}), HasSubstr("--shards is"));
  EXPECT_THAT(error_of({"--model=mlp", "--hidden=4611686018427387904"}), HasSubstr("no width"));
  EXPECT_THAT(error_of({"--optimizer=adamw", "--beta2=0.9999999999"}), HasSubstr("--beta2 is"));
  EXPECT_THAT(error_of({"--optimizer=adamw", "--eps=0"}), HasSubstr("--eps is '0'"));
}

TEST(Flags, HelpListsFlagsAndDefaults) {
  EXPECT_THAT(parse_train_flags({"--help"}).help,
              AllOf(HasSubstr("--global-batch"), HasSubstr("256"), HasSubstr("--no-decay")));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/flag_errors.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST(Flags, TheDataSayWhichModelWhereNoneIsNamed) {
  const auto model = [](const Arguments& arguments) {
    return parse_train_flags(arguments).model.name;
  };
  EXPECT_EQ(model({"--data=csv:x"}), "mlp");
  EXPECT_EQ(model({"--data=text:x"}), "gpt");
  EXPECT_EQ(model({"--data=tokens:x"}), "gpt");
  EXPECT_EQ(model({"--data=images:x"}), "convnet");
  EXPECT_EQ(model({"--data=csv:x", "--model=convnet"}), "convnet");
  // With the recipe of that model.
  EXPECT_TRUE(
      std::holds_alternative<AdamW>(parse_train_flags({"--data=text:x"}).options.optimizer));
}

const Arguments kGpt{"--model=gpt", "--data=text:x"};

TEST(Flags, OneWayOfClippingTakesThePlaceOfTheRecipes) {
  const auto clipping = [](Arguments arguments) {
    arguments.insert(arguments.begin(), kGpt.begin(), kGpt.end());
    const TrainOptions options = parse_train_flags(arguments).options;
    return fmt::format("{} {} {}", options.clip_norm, options.clip_value, options.clip_agc);
  };
  EXPECT_EQ(clipping({}), "1 0 0");
  EXPECT_EQ(clipping({"--clip-value=0.5"}), "0 0.5 0");
  EXPECT_EQ(clipping({"--clip-grad-value=0.5"}), "0 0.5 0");
  EXPECT_EQ(clipping({"--clip-value=0.5", "--clip-value=0.25"}), "0 0.25 0");  // the last counts
  EXPECT_EQ(clipping({"--clip-agc=0.01"}), "0 0 0.01");
  EXPECT_EQ(clipping({"--clip-value=0", "--clip-agc=0"}), "1 0 0");
  EXPECT_EQ(clipping({"--clip-norm=0", "--clip-value=0", "--clip-agc=0.01"}), "0 0 0.01");
}

TEST(Flags, TwoWaysOfClippingAreRefused) {
  EXPECT_THAT(flag_error({"--clip-norm=1", "--clip-value=0.5"}),
              AllOf(HasSubstr("--clip-norm cannot be combined with --clip-value 0.5"),
                    HasSubstr("give one of")));
  EXPECT_THAT(flag_error({"--clip-norm=1", "--clip-agc=0.01"}),
              HasSubstr("--clip-norm cannot be combined with --clip-agc 0.01"));
  EXPECT_THAT(flag_error({"--clip-agc=0.01", "--clip-value=0.5"}),
              HasSubstr("--clip-agc cannot be combined with --clip-value 0.5"));
  for (const char* flag : {"--clip-value", "--clip-agc"})
    for (const char* value : {"-1", "nan", "inf", "1e300", "x"})
      EXPECT_THAT(flag_error({fmt::format("{}={}", flag, value)}),
                  HasSubstr(fmt::format("{} is '{}'", flag, value)));
}

TEST(Flags, ScalingOfRatesNeedsABatchToScaleFrom) {
  EXPECT_FALSE(parse_train_flags({}).options.lr_scaling.on());
  const LrScaling linear = parse_train_flags({"--lr-reference-batch=64"}).options.lr_scaling;
  EXPECT_EQ(to_string(linear), "linear reference_batch=64");
  const Arguments by_root{"--lr-base-size=64", "--lr-base-scale=sqrt"};
  EXPECT_EQ(to_string(parse_train_flags(by_root).options.lr_scaling), "sqrt reference_batch=64");
  EXPECT_THAT(flag_error({"--lr-scaling=sqrt"}),
              HasSubstr("--lr-scaling needs --lr-reference-batch"));
  EXPECT_THAT(flag_error({"--lr-reference-batch=64", "--lr-scaling=cubic"}),
              HasSubstr("--lr-scaling is 'cubic'"));
  for (const char* value : {"0", "-8", "1.5", "nan"})
    EXPECT_THAT(flag_error({fmt::format("--lr-reference-batch={}", value)}),
                HasSubstr(fmt::format("--lr-reference-batch is '{}'", value)));
  EXPECT_THAT(flag_error({"--lr-reference-batch=1", "--lr=3e38"}), HasSubstr("is not finite"));
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

TEST(Flags, GroupsOfParameters) {
  const TrainFlags flags = parse_train_flags(
      {"--model=mlp", "--group", "^a:b$ : lr=0.1,weight-decay = 0", "--group=c:weight-decay=1e-3"});
  ASSERT_EQ(flags.options.groups.size(), 2u);
  EXPECT_EQ(flags.options.groups[0].pattern, "^a:b$");
  EXPECT_EQ(flags.options.groups[0].lr, 0.1f);
  EXPECT_EQ(flags.options.groups[0].weight_decay, 0.0f);
  EXPECT_FALSE(flags.options.groups[1].lr);
  for (const char* text : {"fc",
                           "fc:",
                           "fc: lr",
                           "fc: lr=x",
                           "fc: rate=1",
                           ": lr=1",
                           "fc: lr=1,",
                           "fc: lr=1, lr=2",
                           "fc: lr=-1",
                           "fc: lr=inf",
                           ""})
    EXPECT_THAT(flag_error({"--group", text}), HasSubstr("--group")) << text;
}

TEST(Flags, SchedulesHaveSettingsOfTheirOwn) {
  const LrSchedule schedule =
      parse_train_flags({"--lr-schedule=multi-step", "--milestones=30,80", "--step-factor=0.2"})
          .options.lr_schedule;
  EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{30, 80}));
  EXPECT_EQ(parse_train_flags({"--lr-schedule=one-cycle", "--warmup-steps=auto"})
                .options.lr_schedule.warmup_ratio,
            kOneCycleWarmup);
  EXPECT_THAT(flag_error({"--lr-schedule=multi-step"}), HasSubstr("milestones"));
  EXPECT_THAT(flag_error({"--lr-schedule=multi-step", "--milestones=80,30"}), HasSubstr("rise"));
  EXPECT_THAT(flag_error({"--lr-schedule=cosine", "--lr-power=2"}), HasSubstr("polynomial"));
  EXPECT_THAT(flag_error({"--lr-schedule=inverse-sqrt", "--decay-steps=2"}),
              HasSubstr("--decay-steps"));
}

TEST(Flags, UnknownNamesOfferTheNearest) {
  EXPECT_THAT(flag_error({"--modle", "mlp"}),
              AllOf(HasSubstr("unknown flag --modle"), HasSubstr("did you mean --model?")));
  EXPECT_THAT(flag_error({"--glob_batch=3"}), HasSubstr("did you mean --global-batch?"));
  EXPECT_THAT(flag_error({"--batch=3"}), HasSubstr("--micro-batch"));
  EXPECT_EQ(parse_train_flags({"--global_batch=48"}).options.global_batch, 48);
  EXPECT_THAT(flag_error({"--model", "convent"}),
              AllOf(HasSubstr("unknown model 'convent'"), HasSubstr("--model convnet?")));
  EXPECT_THAT(flag_error({"--optimizer", "adamx"}), HasSubstr("--optimizer adamw?"));
  EXPECT_THAT(flag_error({"--lr-schedule", "cosin"}), HasSubstr("--lr-schedule cosine?"));
  EXPECT_THAT(flag_error({"--reduction=quick"}), HasSubstr("reproducible or fast"));
  EXPECT_THAT(flag_error({"extra"}), HasSubstr("unexpected argument 'extra'"));
}

TEST(Flags, ValuesThatAreNone) {
  EXPECT_THAT(flag_error({"--lr", "fast"}), HasSubstr("--lr is 'fast'"));
  EXPECT_THAT(flag_error({"--lr", "nan"}), HasSubstr("--lr is 'nan'"));
  EXPECT_THAT(flag_error({"--lr=-0.1"}), HasSubstr("--lr is '-0.1'"));
  EXPECT_THAT(flag_error({"--steps", "0"}), HasSubstr("--steps is '0'"));
  EXPECT_THAT(flag_error({"--global-batch=1e3"}), HasSubstr("whole number"));
  EXPECT_THAT(flag_error({"--global-batch", "99999999999999999999"}), HasSubstr("whole number"));
  EXPECT_THAT(flag_error({"--ranks", "all"}), HasSubstr("expected 'auto' or a whole number"));
  EXPECT_THAT(flag_error({"--hidden", "10,x", "--model=mlp"}), HasSubstr("'x'"));
  EXPECT_THAT(flag_error({"--dropout", "1"}), HasSubstr("--dropout is '1'"));
  EXPECT_THAT(flag_error({"--no-decay", "(", "--weight-decay=1"}), HasSubstr("regular expression"));
  EXPECT_THAT(flag_error({"--lr"}), HasSubstr("--lr"));
  EXPECT_THAT(flag_error({"--model=gpt", "--data=text:x", "--val-fraction=abc"}),
              HasSubstr("--val-fraction is 'abc'"));
}

TEST(Flags, Contradictions) {
  EXPECT_THAT(flag_error({"--optimizer=adamw", "--momentum=0.9"}),
              HasSubstr("--momentum cannot be combined with --optimizer adamw"));
  EXPECT_THAT(flag_error({"--beta1=0.8"}),
              HasSubstr("--beta1 cannot be combined with --optimizer sgd"));
  EXPECT_THAT(flag_error({"--model=resnet18", "--hidden=10"}),
              HasSubstr("--hidden cannot be combined"));
  EXPECT_THAT(flag_error({"--stem=cifar"}),
              HasSubstr("--stem cannot be combined with --model convnet"));
  EXPECT_THAT(flag_error({"--model=mlp", "--batch-norm=sync"}), HasSubstr("no batch norm"));
  EXPECT_THAT(flag_error({"--steps=3", "--epochs=2"}),
              HasSubstr("--steps cannot be combined with"));
  EXPECT_THAT(flag_error({"--steps=3", "--samples=2"}),
              HasSubstr("--samples cannot be combined with"));
  EXPECT_THAT(flag_error({"--model=mlp", "--min-lr=0.01"}),
              HasSubstr("--min-lr cannot be combined"));
  EXPECT_THAT(flag_error({"--lr-schedule=cosine", "--step-every=2"}), HasSubstr("--step-every"));
  EXPECT_THAT(flag_error({"--model=mlp", "--no-decay=x"}), HasSubstr("--weight-decay 0"));
  EXPECT_THAT(flag_error({"--decay-all", "--no-decay=x", "--weight-decay=1"}),
              HasSubstr("give one of the two"));
  EXPECT_THAT(flag_error({"--val-fraction=0.1"}), HasSubstr("--val-fraction cannot be combined"));
  EXPECT_THAT(flag_error({"--data=csv:a", "--augment=flip"}),
              HasSubstr("--augment cannot be combined"));
  EXPECT_THAT(flag_error({"--data=glyphs", "--drop=a"}), HasSubstr("--drop cannot be combined"));
  EXPECT_THAT(flag_error({"--model=mlp", "--data=csv:a", "--separator=.."}),
              HasSubstr("--separator '..': expected auto, tab or one character"));
  EXPECT_THAT(flag_error({"--image-size=32"}), HasSubstr("--image-size cannot be combined"));
  EXPECT_THAT(flag_error({"--max-pixels=32"}), HasSubstr("--max-pixels cannot be combined"));
  EXPECT_THAT(flag_error({"--augment=resized-crop"}), HasSubstr("resized-crop needs"));
  // Another image stands at each place of every epoch.
  const Arguments alternates{"--data=images:x", "--augment=alternating-flip"};
  EXPECT_EQ(flag_error(alternates), "no error");
  for (const char* mixes : {"--balance=classes", "--more-data=packed:x"})
    EXPECT_THAT(flag_error({alternates[0], alternates[1], mixes}),
                HasSubstr("alternating-flip wants each image once an epoch"));
  EXPECT_THAT(flag_error({"--data=images:x", "--augment=resized-crop:2"}),
              HasSubstr("expected a share of 0.001 to 1"));
  EXPECT_THAT(flag_error({"--global-batch=16", "--micro-batch=32"}),
              HasSubstr("--micro-batch 32 is larger than --global-batch 16"));
  EXPECT_THAT(flag_error({"--model=mlp", "--nesterov"}), HasSubstr("esterov"));
  for (const std::string every : {"0", "10m"})
    EXPECT_THAT(flag_error({"--on-spike=rollback", "--checkpoint-every=" + every}),
                HasSubstr("alone, and --checkpoint-every is " + every));
}

TEST(Flags, WhatFollowsABadStep) {
  EXPECT_EQ(parse_train_flags({}).options.on_nonfinite, OnNonfinite::stop);
  EXPECT_EQ(parse_train_flags({}).options.on_spike, OnSpike::ignore);
  const TrainFlags flags = parse_train_flags(
      {"--on-nonfinite", "skip", "--on-spike", "rollback", "--checkpoint-every", "100"});
  EXPECT_EQ(flags.options.on_nonfinite, OnNonfinite::skip);
  EXPECT_EQ(flags.options.on_spike, OnSpike::rollback);
  EXPECT_THAT(flag_error({"--on-spike=rolback"}), HasSubstr("--on-spike rollback?"));
}

// Whether there is such a device is asked when one is opened: what a run on a GPU has learned is
// looked at on machines without one.
TEST(Flags, DevicesAreNotLookedFor) {
  EXPECT_EQ(parse_train_flags({"--device=cuda"}).device, "cuda");
  EXPECT_EQ(parse_train_flags({"--device=cpu"}).device, "cpu");
}

TEST(Flags, Losses) {
  EXPECT_EQ(parse_train_flags({}).loss, "auto");
  EXPECT_THAT(flag_error({"--loss=l2"}), HasSubstr("--loss"));
  EXPECT_THAT(flag_error({"--huber-delta=2"}), HasSubstr("--huber-delta cannot be combined"));
  for (const std::string delta : {"0", "-1", "nan", "1e39"})
    EXPECT_THAT(flag_error({"--loss=huber", "--huber-delta=" + delta}), HasSubstr("--huber-delta"));
}

TEST(Flags, TheLastOfRepeatedFlagsCounts) {
  const TrainFlags flags =
      parse_train_flags({"--lr=1", "--seed=2", "--lr", "0.5", "--seed=3", "--force", "--force"});
  EXPECT_EQ(std::get<Sgd>(flags.options.optimizer).lr, 0.5f);
  EXPECT_EQ(flags.options.seed, 3u);
  EXPECT_TRUE(flags.force);
}

TEST(Flags, TruthValuesInEveryCase) {
  for (const char* yes : {"true", "TRUE", "t", "yes", "Y", "on", "On", "enable", "1"})
    EXPECT_TRUE(parse_train_flags({std::string("--force=") + yes}).force) << yes;
  for (const char* no : {"false", "False", "F", "no", "n", "off", "OFF", "disable", "0"})
    EXPECT_FALSE(parse_train_flags({std::string("--force=") + no}).force) << no;
  EXPECT_THAT(flag_error({"--force=maybe"}), HasSubstr("--force is 'maybe'"));
}

TEST(Flags, LimitsAreThoseOfWhatTheFlagsAreFor) {
  EXPECT_EQ(parse_train_flags({"--checkpoint-keep=1000000000"}).options.checkpoint.keep,
            1000000000);
  EXPECT_THAT(flag_error({"--data=images:x", "--image-size=4097"}), HasSubstr("from 1 to 4096"));
  EXPECT_EQ(parse_train_flags({"--data=images:x", "--image-size=4096"}).image_size, 4096);
  const TrainFlags growing = parse_train_flags({"--data=images:x", "--image-size=128:176"});
  EXPECT_EQ(growing.image_size, 176);
  EXPECT_EQ(growing.options.first_image_size, 128);
  EXPECT_EQ(parse_train_flags({"--data=images:x", "--image-size=32:32"}).options.first_image_size,
            0);
  for (const char* wrong : {"176:128", "0:32", "32:", ":32", "32:4097", "32:48:64", "a:b"})
    EXPECT_THAT(flag_error({"--data=images:x", fmt::format("--image-size={}", wrong)}),
                HasSubstr("--image-size"))
        << wrong;
  EXPECT_THAT(flag_error({"--data=images:x", "--image-size=176:128"}),
              HasSubstr("expected a first size of at most the last"));
}

TEST(Flags, NumbersThatWouldOverflow) {
  EXPECT_THAT(flag_error({"--clip-norm=1e300"}), HasSubstr("--clip-norm is '1e300'"));
  EXPECT_THAT(flag_error({"--lr=3.5e38"}), HasSubstr("--lr is '3.5e38'"));
  EXPECT_THAT(flag_error({"--workers=4294967297"}), HasSubstr("--workers is '4294967297'"));
  EXPECT_THAT(flag_error({"--global-batch=4611686018427387904"}), HasSubstr("whole number"));
  EXPECT_THAT(flag_error({"--shards=4294967297"}), HasSubstr("--shards is"));
  EXPECT_THAT(flag_error({"--model=mlp", "--hidden=4611686018427387904"}),
              HasSubstr("not a valid size"));
  EXPECT_THAT(flag_error({"--optimizer=adamw", "--beta2=0.9999999999"}), HasSubstr("--beta2 is"));
  EXPECT_THAT(flag_error({"--optimizer=adamw", "--eps=0"}), HasSubstr("--eps is '0'"));
}

TEST(Flags, HelpListsFlagsAndDefaults) {
  EXPECT_THAT(parse_train_flags({"--help"}).help,
              AllOf(HasSubstr("--global-batch"), HasSubstr("256"), HasSubstr("--no-decay")));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lr_schedule.h"

#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using Kind = LrSchedule::Kind;

TEST(LrSchedule, WarmupRisesLinearlyToTheFullRate) {
  const LrSchedule s{.kind = Kind::cosine, .warmup_steps = 4, .decay_steps = 100};
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 0), 0.2f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 3), 0.8f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 4), 0.8f);
}

TEST(LrSchedule, CosineAndLinearEndAtMinimum) {
  for (Kind kind : {Kind::cosine, Kind::linear}) {
    const LrSchedule s{.kind = kind, .warmup_steps = 10, .decay_steps = 100, .min_lr = 0.01f};
    EXPECT_FLOAT_EQ(lr_at(s, 0.11f, 60), 0.06f);  // half way: the mean, for both
    EXPECT_FLOAT_EQ(lr_at(s, 0.11f, 110), 0.01f);
    EXPECT_FLOAT_EQ(lr_at(s, 0.11f, 5000), 0.01f);
  }
}

TEST(LrSchedule, StepDropsByItsFactor) {
  const LrSchedule s{.kind = Kind::step, .decay_steps = 90, .step_every = 30, .step_factor = 0.1f};
  EXPECT_FLOAT_EQ(lr_at(s, 1.0f, 29), 1.0f);
  EXPECT_FLOAT_EQ(lr_at(s, 1.0f, 30), 0.1f);
  EXPECT_FLOAT_EQ(lr_at(s, 1.0f, 89), 0.01f);
}

// Values of torch.optim.lr_scheduler (PyTorch 2.15) at lr 0.8. Doubles there, and one rounding to
// float here.
TEST(LrSchedule, PolynomialIsPyTorchs) {
  const LrSchedule s{.kind = Kind::polynomial, .decay_steps = 100, .power = 2};
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 0), 0.8f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 25), 0.45f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 99), 8e-5f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 110), 0.0f);
}

TEST(LrSchedule, MultiStepIsPyTorchs) {
  const LrSchedule s{.kind = Kind::multi_step, .milestones = {30, 80}};
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 29), 0.8f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 30), 0.08f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 79), 0.08f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 80), 0.008f);
}

TEST(LrSchedule, OneCycleIsPyTorchs) {
  const LrSchedule s = over_run({.kind = Kind::one_cycle}, 100);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 0), 0.032f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 10), 0.23613115877128066f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 29), 0.8f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 30), 0.7995972266166871f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 60), 0.4714227580508856f);
  EXPECT_NEAR(lr_at(s, 0.8f, 99), 0.0f, 1e-7);
}

TEST(LrSchedule, WsdIsStableUntilTheLastFifth) {
  const LrSchedule s = over_run({.kind = Kind::wsd, .warmup_steps = 10, .min_lr = 0.1f}, 100);
  EXPECT_FLOAT_EQ(lr_at(s, 0.5f, 10), 0.5f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.5f, 80), 0.5f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.5f, 85), 0.3f);  // a quarter of the decay: half of the way
  EXPECT_FLOAT_EQ(lr_at(s, 0.5f, 100), 0.1f);
}

TEST(LrSchedule, InverseSqrtHalvesInFourTimesTheSteps) {
  const LrSchedule s{.kind = Kind::inverse_sqrt, .warmup_steps = 25, .min_lr = 0.01f};
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 24), 0.8f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 99), 0.4f);
  EXPECT_FLOAT_EQ(lr_at(s, 0.8f, 1'000'000'000), 0.01f);
}

TEST(LrSchedule, EveryRateIsFiniteAndAtMostTheOptimizers) {
  for (const auto& [name, kind] : kLrSchedules)
    for (const std::int64_t warmup : {0, 1, 7, 20})
      for (const std::int64_t steps : {1, 2, 20}) {
        const LrSchedule s =
            over_run({.kind = kind, .warmup_steps = warmup, .milestones = {3}}, steps);
        for (std::int64_t t = 0; t < 25; ++t) {
          const float rate = lr_at(s, 0.5f, t);
          EXPECT_TRUE(rate >= 0.0f && rate <= 0.5f) << name << warmup << steps << t << rate;
        }
      }
}

TEST(LrSchedule, NonsenseIsRefused) {
  EXPECT_THROW(validate({.kind = Kind::multi_step}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.kind = Kind::multi_step, .milestones = {30, 30}}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.kind = Kind::multi_step, .milestones = {0, 30}}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.kind = Kind::polynomial, .power = 0.0f}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.kind = Kind::cosine, .min_lr = 0.2f}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.kind = Kind::step, .step_factor = 0.0f}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.warmup_steps = -1}, 0.1f), ConfigError);
  EXPECT_THROW(validate({.warmup_ratio = 1.5f}, 0.1f), ConfigError);
}

TEST(LrSchedule, TheLengthOfTheRunFillsIn) {
  const LrSchedule half = over_run({.warmup_ratio = 0.05f}, 250);
  EXPECT_EQ(half.warmup_steps, 12);
  EXPECT_EQ(half.decay_steps, 238);
  EXPECT_EQ(over_run({.warmup_ratio = 0.05f}, 3).warmup_steps, 0);
  const LrSchedule given =
      over_run({.warmup_steps = 7, .warmup_ratio = 0.5f, .decay_steps = 9}, 100);
  EXPECT_EQ(given.warmup_steps, 7);
  EXPECT_EQ(given.decay_steps, 9);
}

}  // namespace
}  // namespace lockstep

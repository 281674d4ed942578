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

TEST(LrSchedule, NonsenseIsRefused) {
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

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ema.h"

#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

TEST(Ema, DecayIsWhatWasAskedForWithoutWarmup) {
  EXPECT_FLOAT_EQ(ema_rate({.decay = 0.75f, .warmup = false}, 256, 0), 0.25f);
}

TEST(Ema, WarmupForgetsTheStart) {
  const Ema ema{.decay = 0.9f};
  EXPECT_FLOAT_EQ(ema_rate(ema, 256, 0), 0.9f);  // d = 1 / 10
  EXPECT_FLOAT_EQ(ema_rate(ema, 256, 8), 0.5f);  // d = 9 / 18
  EXPECT_FLOAT_EQ(ema_rate(ema, 256, 5000), 0.1f);
}

TEST(Ema, AnotherBatchAveragesOverAsManySamples) {
  const Ema ema{.decay = 0.81f, .warmup = false, .reference_batch = 256};
  EXPECT_FLOAT_EQ(ema_rate(ema, 256, 0), 0.19f);
  EXPECT_FLOAT_EQ(ema_rate(ema, 128, 0), 0.1f);  // two such steps: 0.9^2
}

TEST(Ema, NonsenseIsRefused) {
  EXPECT_THROW(validate(Ema{.decay = 1.0f}), ConfigError);
  EXPECT_THROW(validate(Ema{.decay = -0.1f}), ConfigError);
  EXPECT_THROW(validate(Ema{.decay = 0.5f, .reference_batch = -1}), ConfigError);
  EXPECT_FALSE(Ema{}.on());
}

}  // namespace
}  // namespace lockstep

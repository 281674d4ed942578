// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/step_spread.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace lockstep {
namespace {

TEST(StepSpread, KnowsNothingOfAFewSteps) {
  StepSpread spread;
  for (std::size_t i = 0; i + 1 < StepSpread::kMin; ++i) spread.add(1);
  EXPECT_FALSE(spread.relative_error());
  spread.add(1);
  ASSERT_TRUE(spread.relative_error());
  EXPECT_EQ(*spread.relative_error(), 0);
}

TEST(StepSpread, IsTheFormulaOfItsDocumentation) {
  StepSpread spread;
  for (const double seconds : {1, 2, 3, 4, 5, 6, 7, 8, 9}) spread.add(seconds);
  // Median 5, deviations 4 3 2 1 0 1 2 3 4 with median 2.
  EXPECT_NEAR(*spread.relative_error(), 1.4826 * 2 / (5 * 3), 1e-12);
}

TEST(StepSpread, BlocksGrowWithTheRun) {
  StepSpread spread;
  for (int step = 1; step <= 100'000; ++step) {
    spread.add(1);
    ASSERT_LT(spread.blocks(), StepSpread::kBlocks);
    if (step >= 64) {
      ASSERT_GE(spread.blocks(), StepSpread::kBlocks / 2);
    }
    ASSERT_LE(std::int64_t(spread.blocks()) * spread.steps_a_block(), step);
  }
}

TEST(StepSpread, EstimatesTheErrorOfTheMeanOfIndependentSteps) {
  std::mt19937 random(1);
  std::normal_distribution<double> seconds(10, 2);
  double sum = 0;
  constexpr int kRuns = 200, kSteps = 1000;
  for (int run = 0; run < kRuns; ++run) {
    StepSpread spread;
    for (int step = 0; step < kSteps; ++step) spread.add(seconds(random));
    sum += *spread.relative_error() / kRuns;
  }
  // 0.2 / sqrt(1000); one estimate from 32 to 63 blocks is off by about 15%, the mean of 200 by 1%.
  EXPECT_NEAR(sum, 0.2 / std::sqrt(kSteps), 0.05 * 0.2 / std::sqrt(kSteps));
}

TEST(StepSpread, StepsThatAreSlowTogetherAreOneEvent) {
  // Another process has the core for 50 of every 100 steps: 100 events, not 10,000 steps.
  StepSpread together, alternating;
  std::mt19937 random(1);
  std::bernoulli_distribution slow(0.5);
  bool is_slow = false;
  for (int step = 0; step < 10'000; ++step) {
    if (step % 50 == 0) is_slow = slow(random);
    together.add(is_slow ? 2 : 1);
    alternating.add(slow(random) ? 2 : 1);
  }
  EXPECT_GT(*together.relative_error(), 4 * *alternating.relative_error());
}

TEST(StepSpread, KnowsTheSecondsOfAllSteps) {
  StepSpread spread;
  for (int step = 1; step <= 1000; ++step) {
    spread.add(step);
    ASSERT_EQ(spread.seconds(), double(step) * (step + 1) / 2);
  }
}

TEST(StepSpread, AHiccupDoesNotCount) {
  StepSpread spread;
  for (int step = 0; step < 1000; ++step) spread.add(step == 500 ? 1000 : 1 + step % 2);
  EXPECT_LT(*spread.relative_error(), 1e-12);
}

}  // namespace
}  // namespace lockstep

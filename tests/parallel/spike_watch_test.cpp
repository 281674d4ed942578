// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/spike_watch.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "lockstep/training_feed.h"
#include "parallel/batch/training_feed.h"

namespace lockstep {
namespace {

/// Losses around 2 that differ by 0.1 at most.
double loss_of(int i) { return 2 + 0.1 * std::sin(double(i) * 1.7); }

SpikeWatch warm() {
  SpikeWatch watch;
  for (int i = 0; i < SpikeWatch::kWarmUp; ++i) EXPECT_FALSE(watch.spikes(loss_of(i)));
  return watch;
}

TEST(SpikeWatch, MeanAndVarianceOfTheFirstHundred) {
  SpikeWatch watch;
  double sum = 0, squares = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(watch.spikes(loss_of(i)));
    sum += loss_of(i);
    squares += loss_of(i) * loss_of(i);
  }
  const double mean = sum / 100;
  // 100 updates of five operations on numbers up to 4.5, each rounded by 2^-53 of them at most.
  constexpr double kTolerance = 100 * 5 * 4.5 * 0x1p-53;
  EXPECT_NEAR(watch.statistics().mean, mean, kTolerance);
  EXPECT_NEAR(watch.statistics().variance, squares / 100 - mean * mean, kTolerance);
  EXPECT_EQ(watch.statistics().count, 100);
}

TEST(SpikeWatch, LaterOnOldLossesFade) {
  SpikeWatch watch;
  for (int i = 0; i < 100; ++i) watch.spikes(2);
  for (int i = 0; i < 200; ++i) watch.spikes(1);
  EXPECT_NEAR(watch.statistics().mean, 1 + std::pow(0.99, 200), 1e-12);
}

TEST(SpikeWatch, NothingBeforeWarmUp) {
  SpikeWatch watch;
  for (int i = 0; i < SpikeWatch::kWarmUp; ++i) EXPECT_FALSE(watch.spikes(i == 49 ? 1e6 : 2));
}

TEST(SpikeWatch, BothConditions) {
  SpikeWatch watch = warm();
  EXPECT_FALSE(watch.spikes(2.9)) << "beyond six spreads, but not 1.5 times the mean";
  SpikeWatch rough;
  for (int i = 0; i < 60; ++i) rough.spikes(i % 2 == 0 ? 0.5 : 3.5);
  EXPECT_FALSE(rough.spikes(8)) << "4 times the mean, but within six spreads of 1.5";
  EXPECT_TRUE(rough.spikes(100));
  EXPECT_TRUE(warm().spikes(3.1));
  SpikeWatch flat;
  for (int i = 0; i < 60; ++i) flat.spikes(2);
  EXPECT_FALSE(flat.spikes(2.9)) << "no spread at all";
}

TEST(SpikeWatch, ASpikeIsNotTakenIn) {
  SpikeWatch watch = warm();
  const LossStatistics before = watch.statistics();
  EXPECT_TRUE(watch.spikes(1e6));
  EXPECT_TRUE(watch.spikes(1e6));
  EXPECT_EQ(watch.statistics().mean, before.mean);
  EXPECT_EQ(watch.statistics().variance, before.variance);
  EXPECT_EQ(watch.statistics().count, before.count);
}

TEST(SpikeWatch, GoesOnFromItsStatistics) {
  SpikeWatch whole = warm(), again(warm().statistics());
  for (int i = 50; i < 300; ++i) EXPECT_EQ(whole.spikes(loss_of(i)), again.spikes(loss_of(i)));
  EXPECT_EQ(whole.statistics().mean, again.statistics().mean);
  EXPECT_EQ(whole.statistics().variance, again.statistics().variance);
}

TEST(LeftOutBatches, StepsPassOverThem) {
  SkippedBatches skipped_batches;
  skip_batches(skipped_batches, 10, 14);  // a spike in step 14, the checkpoint of 10 steps
  EXPECT_EQ(skipped_batches, (SkippedBatches{{10, 15}}));
  EXPECT_EQ(batch_of_step(9, skipped_batches), 9);
  EXPECT_EQ(batch_of_step(10, skipped_batches), 15);
  skip_batches(skipped_batches, 10, 11);  // again, back to the same checkpoint
  EXPECT_EQ(skipped_batches, (SkippedBatches{{10, 17}}));
  skip_batches(skipped_batches, 20, 20);
  EXPECT_EQ(skipped_batches, (SkippedBatches{{10, 17}, {27, 28}}));
  EXPECT_EQ(batch_of_step(19, skipped_batches), 26);
  EXPECT_EQ(batch_of_step(20, skipped_batches), 28);
  skip_batches(skipped_batches, 5, 21);  // back to an older one, since newer ones are damaged
  EXPECT_EQ(skipped_batches, (SkippedBatches{{5, 30}}));
}

TEST(LeftOutBatches, AreNoSamplesOfTheRun) {
  // 25 samples in batches of 10, 10 and 5.
  EXPECT_EQ(samples_before(4, 25, 10), 35);
  const SkippedBatches skipped_batches{{2, 4}};  // a short one and a whole one
  EXPECT_EQ(samples_before(2, 25, 10, skipped_batches), 20);
  EXPECT_EQ(samples_before(3, 25, 10, skipped_batches), 30);
  EXPECT_EQ(samples_before(4, 25, 10, skipped_batches), 35);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/progress.h"

#include <cmath>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Progress, StepLine) {
  StepRecord record;
  record.step = 120;
  record.steps = 940;
  record.epoch = 0.51;
  record.loss = 0.12341;
  record.accuracy = 0.965;
  record.lr = 0.1;
  record.samples_per_s = 12345.4;
  record.step_ms.total = 20.74;
  EXPECT_EQ(step_line(record),
            "step 120/940  epoch 0.51  loss 0.1234  acc 96.50%  lr 0.1  12,345 samples/s  20.7 ms");
  record.accuracy = -1;
  record.step_ms.total = 0.0123;
  EXPECT_EQ(step_line(record),
            "step 120/940  epoch 0.51  loss 0.1234  lr 0.1  12,345 samples/s  0.0123 ms");
}

TEST(Progress, SlowRankLine) {
  EXPECT_EQ(slow_rank_line({.rank = 3,
                            .host = "node7",
                            .score = 1.83,
                            .phase = "loading",
                            .ms = 42,
                            .median_ms = 12}),
            "[rank 3 node7] warning: rank 3 is slower than the others: score 1.8 in loading "
            "(42.0 ms a micro-batch, median 12.0 ms)");
}

TEST(Progress, Thousands) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
  EXPECT_EQ(with_thousands(1234567.6), "1,234,568");
  EXPECT_EQ(with_thousands(HUGE_VAL), "inf");
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration(0.4), "0s");
  EXPECT_EQ(duration(83), "1m 23s");
  EXPECT_EQ(duration(3 * 3600 + 62), "3h 01m");
}

}  // namespace
}  // namespace lockstep

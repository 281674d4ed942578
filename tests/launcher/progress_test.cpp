// SPDX-License-Identifier: Apache-2.0
#include "lockstep/progress.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text/number_format.h"
#include "parallel/console/console.h"
#include "parallel/console/eta.h"
#include "parallel/console/progress.h"

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

TEST(Progress, PlainLineStaysBelow120Columns) {
  StepRecord record;
  record.step = 120;
  record.steps = 940;
  record.epoch = 0.51;
  record.loss = 0.12341;
  record.accuracy = -1;
  record.lr = 0.1;
  record.samples_per_s = 12345.4;
  record.step_ms.total = 20;
  const ProgressContext facts{.flops_per_step = 2e9, .peak_flops = 2e11};
  EXPECT_EQ(plain_line(record, facts, 123),
            step_line(record) + "  2m 03s left  100 GFLOP/s, 50% of peak");
  record.step = record.steps = 123456789012;
  record.accuracy = 0.5;
  record.samples_per_s = 123456789;
  EXPECT_EQ(plain_line(record, facts, 0), step_line(record)) << "nothing is left, no room for rest";
  EXPECT_LT(step_line(record).size(), 120u);
}

TEST(Progress, LivePartsLeaveOutWhatIsNotKnown) {
  StepRecord record;
  record.loss = 0.12341;
  record.samples_per_s = 12345.4;
  record.step_ms.total = 10;
  using ::testing::ElementsAre;
  EXPECT_THAT(live_parts(record, {}, 83, 0),
              ElementsAre("1m 23s left", "loss 0.1234", "12,345 samples/s"));
  EXPECT_THAT(
      live_parts(record, {.flops_per_step = 1.5e10}, 0, std::uint64_t{1} << 30),
      ElementsAre("0s left", "loss 0.1234", "12,345 samples/s", "1.50 TFLOP/s", "1.00 GiB"));
  EXPECT_THAT(
      live_parts(
          record,
          {.flops_per_step = 1e4, .peak_flops = 4e6, .planned_bytes = std::uint64_t{3} << 30},
          0,
          std::uint64_t{1} << 30),
      ElementsAre("0s left",
                  "loss 0.1234",
                  "12,345 samples/s",
                  "1.00 MFLOP/s, 25% of peak",
                  "1.00 GiB of 3.00 GiB"));
}

TEST(Progress, PartsWithinColumns) {
  const std::vector<std::string> parts{"abc", "defg", "h"};
  EXPECT_EQ(parts_within(100, parts), "abc  defg  h");
  EXPECT_EQ(parts_within(12, parts), "abc  defg  h");
  EXPECT_EQ(parts_within(11, parts), "abc  defg");
  EXPECT_EQ(parts_within(8, parts), "abc") << "what is wanted less does not take its place";
  EXPECT_EQ(parts_within(2, parts), "");
}

StepRecord step_of(std::int64_t step, std::int64_t steps, double ms) {
  StepRecord record;
  record.step = step;
  record.steps = steps;
  record.step_ms.total = ms;
  return record;
}

EvaluationRecord evaluation_of(std::int64_t step, double seconds) {
  EvaluationRecord record;
  record.step = step;
  record.seconds = seconds;
  return record;
}

TEST(Eta, StepsAtTheMeanOfRecentOnes) {
  Eta left;
  EXPECT_EQ(left.seconds(), 0);
  left.on_step(step_of(10, 100, 500));
  EXPECT_DOUBLE_EQ(left.seconds(), 45);
  left.on_step(step_of(40, 100, 100));  // 30 steps in 3 s after 10 in 5
  EXPECT_DOUBLE_EQ(left.seconds(), 60 * 8.0 / 40);
  for (int step = 50; step <= 120; step += 10) left.on_step(step_of(step, 200, 1000));
  EXPECT_DOUBLE_EQ(left.seconds(), 80) << "eight records push the first ones out";
}

TEST(Eta, ValidationsThatAreLeft) {
  Eta left;
  left.on_step(step_of(20, 110, 1000));
  left.on_evaluation(evaluation_of(20, 7));
  EXPECT_DOUBLE_EQ(left.seconds(), 90 + 5 * 7) << "behind steps 40, 60, 80, 100 and 110";
  left.on_step(step_of(50, 110, 1000));
  EXPECT_DOUBLE_EQ(left.seconds(), 60 + 5 * 7) << "that of step 40 has not been told of";
  left.on_evaluation(evaluation_of(50, 3));  // now every 30 steps, of 5 s
  EXPECT_DOUBLE_EQ(left.seconds(), 60 + 2 * 5);
}

TEST(Eta, ARunThatGoesOnOrBack) {
  Eta left;
  left.resume_from(90);
  left.on_step(step_of(100, 110, 1000));
  left.on_evaluation(evaluation_of(100, 4));
  EXPECT_DOUBLE_EQ(left.seconds(), 10 + 4);
  left.resume_from(80);
  left.on_step(step_of(90, 110, 1000));
  EXPECT_DOUBLE_EQ(left.seconds(), 20 + 3 * 4);
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
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(1234567.6), "1,234,568");
  EXPECT_EQ(format_count(HUGE_VAL), "inf");
}

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(83), "1m 23s");
  EXPECT_EQ(format_duration(3 * 3600 + 62), "3h 01m");
  EXPECT_EQ(format_duration(-1e300), "0s");
  EXPECT_EQ(format_duration(1e300), format_duration(1e15));
}

}  // namespace
}  // namespace lockstep

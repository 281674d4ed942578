// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/batch_plan.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  std::string message, hint;
};

Refusal refusal_of(const TrainOptions& options, int ranks) {
  try {
    plan_batch(options, ranks);
  } catch (const ConfigError& error) {
    EXPECT_FALSE(try_plan_batch(options, ranks).has_value());
    return {error.what(), error.hint()};
  }
  return {"accepted", ""};
}

TEST(BatchPlan, DefaultsDoNotDependOnRanks) {
  for (int ranks : {1, 2, 3, 8}) {
    const BatchPlan plan = plan_batch({.global_batch = 256}, ranks);
    EXPECT_EQ(try_plan_batch({.global_batch = 256}, ranks)->to_string(), plan.to_string());
    EXPECT_EQ(plan.micro_batch, 32);
    EXPECT_EQ(plan.micro_batches, 8);
    EXPECT_EQ(plan.shards, 8);
  }
}

TEST(BatchPlan, AccumulationDerivesTheMicroBatch) {
  EXPECT_EQ(plan_batch({.global_batch = 96, .accumulation = 4}, 2).micro_batch, 12);
}

TEST(BatchPlan, ContradictionNamesAllNumbers) {
  const Refusal r = refusal_of({.global_batch = 256, .micro_batch = 32, .accumulation = 3}, 2);
  for (const char* number : {"256", "32", "3", "2 ranks", "192"})
    EXPECT_THAT(r.message, HasSubstr(number));
}

TEST(BatchPlan, AGlobalBatchIsNoLargerThanTheTrainingData) {
  expect_whole_batch(64, 64);
  try {
    expect_whole_batch(65, 64);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.parameters(), ::testing::ElementsAre("global_batch"));
    for (const char* number : {"65", "64"}) EXPECT_THAT(error.what(), HasSubstr(number));
  }
}

TEST(BatchPlan, HugeNumbersAreRefusedNotOverflowed) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_THAT(refusal_of({.global_batch = 64, .accumulation = huge}, 4).message,
              HasSubstr("accumulation"));
  EXPECT_THAT(refusal_of({.global_batch = 64, .micro_batch = huge, .accumulation = 8}, 4).message,
              HasSubstr("`micro_batch`"));
}

TEST(BatchPlan, FewerSamplesOrMicroBatchesThanRanks) {
  EXPECT_THAT(refusal_of({.global_batch = 3}, 4).message,
              HasSubstr("smaller than the number of ranks"));
  EXPECT_THAT(refusal_of({.global_batch = 64, .micro_batch = 32}, 4).message,
              HasSubstr("too few for 4 ranks"));
  // The hint works.
  EXPECT_EQ(plan_batch({.global_batch = 64, .micro_batch = 16}, 4).micro_batches, 4);
}

TrainOptions grouped(std::int64_t micro_batch, const char* batch_norm) {
  TrainOptions options{.global_batch = 128, .micro_batch = micro_batch};
  options.batch_norm = BatchNormPolicy::parse(batch_norm);
  return options;
}

TEST(BatchPlan, GroupsThatCannotBeFormedSayWhatWouldFormThem) {
  EXPECT_THAT(refusal_of(grouped(32, "group:12"), 1).hint, HasSubstr("`micro_batch` 36"));
  EXPECT_THAT(refusal_of(grouped(32, "group:64"), 3).hint, HasSubstr("`micro_batch` 64"));
  EXPECT_THAT(refusal_of(grouped(32, "group:256"), 1).hint, HasSubstr("group:32"));
  EXPECT_EQ(plan_batch(grouped(32, "group:64"), 4).cluster, 2);
  EXPECT_EQ(plan_batch(grouped(64, "group:64"), 1).cluster, 1);
  EXPECT_EQ(plan_batch(grouped(32, "group:8"), 4).group_size, 8);
}

TEST(TrainOptions, ValidateNamesTheSetting) {
  const auto message = [](const TrainOptions& options) -> std::string {
    try {
      validate(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({.epochs = 1}), "accepted");
  EXPECT_THAT(message({}), HasSubstr("`epochs`"));
  EXPECT_THAT(message({.epochs = 1, .steps = -5}), HasSubstr("`steps`"));
  EXPECT_THAT(message({.epochs = 1e30}), HasSubstr("epochs"));
  TrainOptions options{.steps = 1};
  options.clip_norm = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message(options), HasSubstr("`clip_norm`"));
  options.clip_norm = 0;
  options.clip_value = -1;
  EXPECT_THAT(message(options), HasSubstr("`clip_value` must be finite and not negative, got -1"));
  options.clip_value = 0;
  options.clip_agc = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message(options), HasSubstr("`clip_agc`"));
  options.clip_agc = 0.01f;
  EXPECT_EQ(message(options), "accepted");
  options.clip_norm = 1;
  EXPECT_THAT(message(options), HasSubstr("`clip_agc` 0.01 cannot be combined with `clip_norm` 1"));
  options.clip_norm = 0;
  options.lr_scaling.reference_batch = -1;
  EXPECT_THAT(message(options), HasSubstr("`lr_reference_batch`"));
  options.lr_scaling.reference_batch = 0;
  options.bucket_mb = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message(options), HasSubstr("`bucket_mb`"));
}

TEST(BatchPlan, DefaultMicroBatchesAreEnoughForSeveralRanks) {
  for (const auto& [global, micro] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1},
                                                                                        {2, 1},
                                                                                        {12, 6},
                                                                                        {32, 16},
                                                                                        {48, 24},
                                                                                        {64, 16},
                                                                                        {100, 25},
                                                                                        {128, 16},
                                                                                        {224, 28},
                                                                                        {225, 32},
                                                                                        {256, 32},
                                                                                        {300, 32},
                                                                                        {4096, 32}})
    EXPECT_EQ(default_micro_batch(global), micro) << global;
}

}  // namespace
}  // namespace lockstep

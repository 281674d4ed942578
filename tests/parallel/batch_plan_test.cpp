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

TEST(BatchPlan, WithoutAShardsSettingThereAreUpTo64) {
  for (const int micro_batches : {1, 8, 63, 64, 65, 1000})
    EXPECT_EQ(plan_batch({.global_batch = micro_batches, .micro_batch = 1}, 1).shards,
              std::min(micro_batches, 64));
  const Refusal r = refusal_of({.global_batch = 200, .micro_batch = 1}, 100);
  EXPECT_THAT(r.hint, HasSubstr("`shards` 100, or auto"));
  EXPECT_EQ(plan_batch({.global_batch = 200, .micro_batch = 1, .shards = 100}, 100).shards, 100);
  EXPECT_EQ(plan_batch({.global_batch = 200, .micro_batch = 1, .shards = kAutoShards}, 100).shards,
            200);
}

/// Of the micro-batches of the rank that has most, no cut of them into ranks has fewer.
double allowed_balance(std::int64_t micro_batches, int ranks) {
  const std::int64_t most = (micro_batches - 1) / ranks + 1;
  return double(micro_batches) / double(ranks * most);
}

TrainOptions auto_shards_of(std::int64_t micro_batches) {
  return {.global_batch = micro_batches, .micro_batch = 1, .shards = kAutoShards};
}

TEST(BatchPlan, AutoShardsBalanceEveryNumberOfRanksAsItsMicroBatchesAllow) {
  for (const std::int64_t micro_batches :
       {1, 7, 64, 100, 256, 1000, 1024, 1536, 4096, 20480, 65536})
    for (int ranks = 1; ranks <= std::min<std::int64_t>(1024, micro_batches); ++ranks) {
      const BatchPlan plan = plan_batch(auto_shards_of(micro_batches), ranks);
      ASSERT_EQ(plan.shards, micro_batches) << "depends on the ranks";
      ASSERT_DOUBLE_EQ(rank_balance(plan), allowed_balance(micro_batches, ranks))
          << micro_batches << " on " << ranks;
    }
}

// With micro-batches that each rank has a whole number of, or 19 and more: n of n + 1 is 95%.
TEST(BatchPlan, AutoShardsBalanceTo95Percent) {
  for (int ranks = 1; ranks <= 1024; ++ranks)
    for (const std::int64_t micro_batches : {std::int64_t(ranks),
                                             3 * std::int64_t(ranks),
                                             19 * std::int64_t(ranks) + 1,
                                             31 * std::int64_t(ranks) - 1})
      ASSERT_GE(rank_balance(plan_batch(auto_shards_of(micro_batches), ranks)), kMinBalance)
          << micro_batches << " on " << ranks;
}

TEST(BatchPlan, MoreMicroBatchesThanAutoShards) {
  for (const std::int64_t micro_batches : {65537, 70000, 100000, 131071, 1 << 20})
    for (int ranks = 1; ranks <= 1024; ++ranks) {
      const BatchPlan plan = plan_batch(auto_shards_of(micro_batches), ranks);
      ASSERT_EQ(plan.shards, 65536);
      ASSERT_GE(rank_balance(plan), (64.0 / 65) * (64.0 / 65)) << micro_batches << " on " << ranks;
    }
}

TEST(BatchPlan, AutoShardsOfClusters) {
  TrainOptions options = auto_shards_of(1001);
  options.micro_batch = 2;
  options.global_batch = 2002;
  options.batch_norm = BatchNormPolicy::parse("group:8");
  EXPECT_EQ(plan_batch(options, 8).shards, 1000) << "a multiple of the 4 ranks of a group";
}

TEST(BatchPlan, TheBetterNumberOfShards) {
  const auto plan = [](std::int64_t micro_batches, int ranks) {
    return plan_batch({.global_batch = micro_batches, .micro_batch = 1}, ranks);
  };
  EXPECT_DOUBLE_EQ(rank_balance(plan(4096, 48)), 2.0 / 3) << "64 shards: two, and two thirds idle";
  EXPECT_EQ(better_shards(plan(4096, 48)), 48);
  EXPECT_EQ(better_shards(plan(4096, 64)), std::nullopt);
  EXPECT_EQ(better_shards(plan(64, 48)), std::nullopt) << "some rank has two in any case";
  for (int ranks = 1; ranks <= 64; ++ranks)
    if (const auto shards = better_shards(plan(1024, ranks))) {
      const BatchPlan better =
          plan_batch({.global_batch = 1024, .micro_batch = 1, .shards = *shards}, ranks);
      EXPECT_DOUBLE_EQ(rank_balance(better), allowed_balance(1024, ranks));
      EXPECT_GE(rank_balance(better), 1.05 * rank_balance(plan(1024, ranks)));
    }
}

TEST(BatchPlan, BalancedRankCounts) {
  const TrainOptions options{.global_batch = 4096, .micro_batch = 1};
  const BatchPlan of_one = plan_batch(options, 1);
  EXPECT_THAT(balanced_rank_counts(options, of_one, 1024),
              ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 8, 11, 13, 16, 22, 32, 33, 64));
  EXPECT_THAT(balanced_rank_counts(options, of_one, 10),
              ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 8));
  EXPECT_EQ(balanced_rank_counts(options, plan_batch(options, 8), 1024),
            balanced_rank_counts(options, of_one, 1024));
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

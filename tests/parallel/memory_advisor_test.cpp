// SPDX-License-Identifier: Apache-2.0
// A proposed change fits, and is the cheapest of its kind.
#include "parallel/memory/memory_advisor.h"

#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "parallel/batch/batch_plan.h"
#include "tests/parallel/small_runs.h"

namespace lockstep {
namespace {

using testing::SmallRun;

PlanRequest request_for(const SmallRun& run, std::int64_t global, std::int64_t micro, int ranks) {
  PlanRequest request;
  request.model = run.model;
  request.loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  request.data = run.data;
  request.options = run.options;
  request.options.global_batch = global;
  request.options.micro_batch = micro;
  request.ranks = ranks;
  return request;
}

/// Small in parameters, large in activations.
PlanRequest resnet(std::int64_t global = 24, std::int64_t micro = 12, int ranks = 1) {
  return request_for(testing::small_resnet(), global, micro, ranks);
}

Backend& device() {
  static const std::unique_ptr<Backend> backend = testing::make_test_backend();
  return *backend;
}

MemoryTable table_with(PlanRequest request, std::int64_t micro_batch, Recompute recompute) {
  request.options.micro_batch = micro_batch;
  request.options.accumulation = 0;
  request.options.recompute = recompute;
  request.options.memory_limit = 0;
  return plan_memory(device(), request).table;
}

std::uint64_t device_bytes(const PlanRequest& request,
                           std::int64_t micro_batch,
                           Recompute recompute = Recompute::none) {
  return table_with(request, micro_batch, recompute).on_device();
}

/// What a run with the proposed flags would plan.
MemoryPlan plan_of(PlanRequest request, const MemoryFix& fix) {
  TrainOptions& options = request.options;
  if (fix.micro_batch > 0) options.micro_batch = fix.micro_batch;
  if (fix.accumulation > 0) options.accumulation = fix.accumulation;
  if (fix.sharding != Sharding::none) options.sharding = fix.sharding;
  if (fix.recompute) options.recompute = Recompute::automatic;
  if (fix.memory_limit > 0) options.memory_limit = fix.memory_limit;
  if (fix.ranks > 0) request.ranks = fix.ranks;
  return plan_memory(device(), request);
}

/// A limit of --memory-limit.
MemoryAdvice advise_within(PlanRequest request, std::uint64_t limit) {
  request.options.memory_limit = limit;
  const MemoryAdvice advice = advise(device(), request, {.bytes = limit});
  EXPECT_EQ(advice.needed, plan_min_memory(device(), request).table.on_device());
  if (!advice.fix) return advice;
  const MemoryPlan plan = plan_of(request, *advice.fix);
  EXPECT_EQ(plan.table.on_device(), advice.fix->needed) << advice.fix->flags();
  EXPECT_LE(advice.fix->needed, limit) << advice.fix->flags();
  EXPECT_EQ(advice.fix->needed + advice.fix->saved, advice.needed);
  EXPECT_EQ(plan.batch.global_batch, request.options.global_batch);
  return advice;
}

TEST(MemoryFix, IsTheLargestMicroBatchThatDividesTheBatch) {
  const PlanRequest request = resnet();
  const MemoryAdvice advice = advise_within(request, device_bytes(request, 9));
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->micro_batch, 8);
  EXPECT_EQ(advice.fix->accumulation, 3);
  EXPECT_EQ(advice.fix->ranks, 0);
  EXPECT_EQ(advice.fix->flags(), "`micro_batch` 8 `accumulation` 3");
  EXPECT_EQ(advice.fix->needed, device_bytes(request, 8));
}

TEST(MemoryFix, DividesTheBatchOfSeveralRanks) {
  const PlanRequest request = resnet(24, 12, 2);
  const MemoryAdvice advice = advise_within(request, device_bytes(request, 7));
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->flags(), "`micro_batch` 6 `accumulation` 2");
}

/// Of what computes the same bits, as fast.
TEST(MemoryFix, ShardsTheOptimizerFirst) {
  PlanRequest request = resnet(24, 12, 2);
  request.options.optimizer = AdamW{};
  PlanRequest sharded = request;
  sharded.options.sharding = Sharding::optimizer;
  const std::uint64_t without = device_bytes(request, 12), with = device_bytes(sharded, 12);
  ASSERT_LT(with, without);
  const MemoryAdvice advice = advise_within(request, with);
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->flags(), "`shard` optimizer");
  EXPECT_EQ(advice.fix->needed, with);
}

/// Of 24 micro-batches of one sample, whose sums are most of the memory.
TEST(MemoryFix, ShardsGradientsWhereNothingElseFits) {
  SmallRun run = testing::small_resnet();
  run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {256, 256}});
  PlanRequest request = request_for(run, 24, 1, 2);
  request.options.optimizer = AdamW{};
  PlanRequest sharded = request;
  sharded.options.sharding = Sharding::gradients;
  const std::uint64_t with = device_bytes(sharded, 1);
  sharded.options.sharding = Sharding::optimizer;
  ASSERT_LT(with, device_bytes(sharded, 1));
  request.options.accumulation = 12;  // no larger micro-batch, which has fewer sums
  const MemoryAdvice advice = advise_within(request, with);
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->flags(), "`shard` gradients");
  EXPECT_EQ(advice.fix->needed, with);
}

/// 7 samples on 2 ranks: no micro-batch divides them evenly.
TEST(MemoryFix, OfABatchThatNothingDividesIsAMicroBatchAlone) {
  const PlanRequest request = resnet(7, 4, 2);
  const MemoryAdvice advice = advise_within(request, device_bytes(request, 3));
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->flags(), "`micro_batch` 3");
}

/// 22 = 2 * 11: an even one would be 2, less than a half of what fits.
TEST(MemoryFix, DoesNotPayHalfOfTheMicroBatchForEvenness) {
  const PlanRequest request = resnet(22, 11);
  const MemoryAdvice advice = advise_within(request, device_bytes(request, 9));
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->accumulation, 0);
  EXPECT_GE(advice.fix->micro_batch, 8);
}

TEST(MemoryFix, KeepsTheFormOfAnAccumulationThatWasAskedFor) {
  PlanRequest request = resnet(22, 11);
  request.options.accumulation = 2;
  const MemoryAdvice advice = advise_within(request, device_bytes(resnet(22, 11), 9));
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->flags(), "`micro_batch` 2 `accumulation` 11");
}

TEST(MemoryFix, BringsRecomputationInWhereNoMicroBatchFits) {
  const PlanRequest request = resnet();
  const std::uint64_t limit = device_bytes(request, 1) - 1;
  ASSERT_LT(device_bytes(request, 1, Recompute::all), limit);
  const MemoryAdvice advice = advise_within(request, limit);
  ASSERT_TRUE(advice.fix);
  EXPECT_TRUE(advice.fix->recompute);
  EXPECT_EQ(advice.fix->memory_limit, 0u) << "the one that was given is enough";
  EXPECT_NE(advice.fix->flags().find("`recompute` auto"), std::string::npos);
}

TEST(MemoryFix, BringsAMemoryLimitWithTheRecomputation) {
  const PlanRequest request = resnet(2, 1);
  const std::uint64_t bytes = device_bytes(request, 1) - 1;
  const MemoryAdvice advice = advise(device(), request, {.bytes = bytes});
  ASSERT_TRUE(advice.fix);
  EXPECT_TRUE(advice.fix->recompute);
  EXPECT_EQ(advice.fix->micro_batch, 0);
  EXPECT_GT(advice.fix->memory_limit, 0u);
  EXPECT_LE(advice.fix->memory_limit, bytes);
  EXPECT_LE(plan_of(request, *advice.fix).table.on_device(), bytes);
}

TEST(MemoryFix, OfHostMemoryCountsSnapshotAndLoader) {
  const PlanRequest request = resnet();
  const MemoryTable half = table_with(request, 6, Recompute::none);
  const MemoryTarget target{.bytes = half.planned(), .host = true};
  ASSERT_GT(half.planned(), half.on_device());
  const MemoryAdvice advice = advise(device(), request, target);
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->micro_batch, 6);
  EXPECT_EQ(advice.fix->needed, half.planned());
  const MemoryAdvice less = advise(device(), request, {.bytes = half.planned() - 1, .host = true});
  ASSERT_TRUE(less.fix);
  EXPECT_LT(less.fix->micro_batch, 6);
}

TEST(MemoryTarget, RanksShareTheSnapshot) {
  const MemoryTable one = table_with(resnet(), 4, Recompute::none);
  const MemoryTable four = table_with(resnet(16, 4, 4), 4, Recompute::none);
  const std::uint64_t all = *one[MemoryCategory::snapshot];
  const std::uint64_t part = *four[MemoryCategory::snapshot];
  EXPECT_GE(4 * part, all - all / 100) << "padding between parts is not copied";
  EXPECT_LT(part, all / 3) << "no tensor is larger than that";
  EXPECT_EQ(MemoryTarget{.host = true}.needed(four), four.planned());
  EXPECT_EQ(MemoryTarget{}.needed(four), four.on_device());
}

TEST(MemoryFix, TakesFewerRanksWhereTheyShareMemory) {
  PlanRequest request = resnet(4, 1, 4);
  request.options.recompute = Recompute::all;
  const MemoryTable table = table_with(request, 1, Recompute::all);
  const auto needed = [&](int ranks) {
    PlanRequest other = request;
    other.ranks = ranks;
    return MemoryTarget{.host = true}.needed(table_with(other, 1, Recompute::all));
  };
  // Enough for two ranks, not for three.
  const std::uint64_t all = 2 * needed(2) + 3;
  ASSERT_GT(3 * needed(3), all);
  const MemoryTarget target{.bytes = all / 4, .host = true, .colocated_ranks = 4};
  ASSERT_GT(target.needed(table), target.bytes);
  const MemoryAdvice advice = advise(device(), request, target);
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->ranks, 2);
  EXPECT_EQ(advice.fix->flags(), "");
  EXPECT_EQ(advice.fix->needed, needed(2));
}

TEST(MemoryFix, WhereThereIsNoneTheNumbersAddUp) {
  PlanRequest request = resnet();
  request.options.optimizer = AdamW{};
  const std::uint64_t limit = device_bytes(request, 1, Recompute::all) / 2;
  const MemoryAdvice advice = advise_within(request, limit);
  ASSERT_FALSE(advice.fix);
  ASSERT_TRUE(advice.least);
  for (const std::int64_t micro : {1, 2, 4, 8})
    EXPECT_LE(advice.least->needed, device_bytes(request, micro, Recompute::all));
  EXPECT_EQ(advice.least->needed, advice.least->plan.table.on_device());
  EXPECT_GT(advice.least->needed, limit);
  ASSERT_EQ(advice.others.size(), 3u);
  for (const OtherSetting& other : advice.others) {
    EXPECT_EQ(other.fits, other.needed <= limit) << other.flags;
    if (other.flags.find("sgd") != std::string::npos) {
      EXPECT_LT(other.needed, advice.least->needed) << other.flags;
    }
  }
}

/// Sums of the shards that a micro-batch of 1 makes outweigh its activations.
TEST(MemoryFix, TheLeastNeedNotBeTheSmallestMicroBatch) {
  PlanRequest request = resnet(24, 24);
  request.options.recompute = Recompute::all;
  const std::uint64_t limit = device_bytes(request, 4, Recompute::all);
  ASSERT_GT(device_bytes(request, 1, Recompute::all), limit);
  ASSERT_GT(device_bytes(request, 24, Recompute::all), limit);
  const MemoryAdvice advice = advise_within(request, limit);
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->flags(), "`micro_batch` 4 `accumulation` 6");
  EXPECT_GT(min_memory(device(), request, {.bytes = 1}).micro_batch, 1);
}

/// Two samples of a group: a micro-batch of 1 cannot be planned on one rank.
TEST(MemoryFix, TakesMicroBatchesThatTheBatchAllows) {
  PlanRequest request = resnet(24, 12);
  request.options.batch_norm = BatchNormPolicy::parse("group:4");
  const MinMemory least = min_memory(device(), request, {.bytes = 1});
  EXPECT_EQ(least.micro_batch % 4, 0);
  EXPECT_LE(least.needed, device_bytes(request, 4));
  const MemoryAdvice advice = advise_within(request, device_bytes(request, 11 - 11 % 4));
  ASSERT_TRUE(advice.fix);
  EXPECT_EQ(advice.fix->micro_batch, 8);
}

TEST(MemoryFix, LowersTheLimitOfRecomputationThatIsThereAlready) {
  PlanRequest request = resnet(4, 4);
  request.options.recompute = Recompute::automatic;
  request.options.memory_limit = device_bytes(request, 4);
  const std::uint64_t bytes = request.options.memory_limit - 1;
  const MemoryAdvice advice = advise(device(), request, {.bytes = bytes});
  ASSERT_TRUE(advice.fix);
  EXPECT_FALSE(advice.fix->recompute);
  EXPECT_LE(advice.fix->memory_limit, bytes);
  EXPECT_EQ(advice.fix->micro_batch, 0);
  EXPECT_LE(plan_of(request, *advice.fix).table.on_device(), bytes);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// The micro-batch that is measured: it fits, every rank takes the same, and the global batch stays.
#include "parallel/memory/micro_batch_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/memory/micro_batch_timer.h"
#include "tests/parallel/metered_context.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::MeteredContext;
using testing::SmallRun;

PlanRequest request_for(SmallRun run) {
  run.options.micro_batch = 0;
  run.options.accumulation = 0;
  run.options.global_batch = 24;
  return {.model = run.model,
          .loss = [](Builder& nn,
                     Value logits,
                     Value labels) { return nn.softmax_cross_entropy(logits, labels, 0.0f, {}); },
          .data = run.data,
          .options = run.options,
          .ranks = testing::mpi_world().size()};
}

constexpr MemoryTarget kAnyRoom{.bytes = ~std::uint64_t{0}};

std::uint64_t device_bytes(const PlanRequest& request,
                           std::int64_t micro_batch,
                           Recompute recompute) {
  PlanRequest fixed = request;
  fixed.options.micro_batch = micro_batch;
  fixed.options.recompute = recompute;
  fixed.options.memory_limit = 0;
  return plan_memory(*testing::make_test_backend(), fixed).table.on_device();
}

void expect_equal_on_all_ranks(const MicroBatchChoice& choice) {
  Communicator& world = testing::mpi_world();
  std::vector<std::int64_t> all(std::size_t(world.size()));
  world.all_gather(&choice.micro_batch, all.data(), sizeof choice.micro_batch);
  for (const std::int64_t other : all) EXPECT_EQ(other, choice.micro_batch);
}

TEST(EvenMicroBatches, DivideTheBatchWhereTheyCan) {
  EXPECT_THAT(even_micro_batches(256, 2), ElementsAre(1, 2, 4, 8, 16, 32, 64, 128));
  EXPECT_THAT(even_micro_batches(1, 1), ElementsAre(1));
  EXPECT_THAT(even_micro_batches(7, 2), ElementsAre(1, 2, 4));
  for (const std::int64_t size : even_micro_batches(96 * 5, 5)) EXPECT_EQ(96 % size, 0) << size;
  // 131 is a prime: what lies between 1 and 131 leaves a remainder.
  const std::vector<std::int64_t> prime = even_micro_batches(131, 1);
  EXPECT_EQ(prime.front(), 1);
  EXPECT_EQ(prime.back(), 131);
  EXPECT_GE(prime.size(), 8u);
}

TEST(EvenMicroBatches, AreNeverFewAndNeverFarApart) {
  for (std::int64_t global = 1; global <= 3000; global = global * 5 / 4 + 1)
    for (const int ranks : {1, 2, 3, 8}) {
      if (global < ranks) continue;
      const std::vector<std::int64_t> sizes = even_micro_batches(global, ranks);
      EXPECT_EQ(sizes.back(), (global - 1) / ranks + 1);
      EXPECT_EQ(sizes.front(), 1);
      for (std::size_t i = 1; i < sizes.size(); ++i)
        EXPECT_LE(double(sizes[i]), 3.0 * double(sizes[i - 1])) << global << " on " << ranks;
    }
}

class Choice : public ::testing::TestWithParam<SmallRun (*)()> {};

TEST_P(Choice, WithoutALimitIsTheLargestOfTheFastest) {
  MeteredContext context;
  const PlanRequest request = request_for(GetParam()());
  const MicroBatchChoice choice = choose_micro_batch(context, request, kAnyRoom);
  expect_equal_on_all_ranks(choice);
  EXPECT_EQ(choice.recompute, Recompute::none);
  EXPECT_EQ(choice.memory_limit, 0u);
  double least = HUGE_VAL;
  for (const MicroBatchTrial& trial : choice.trials) {
    EXPECT_TRUE(trial.fits);
    EXPECT_EQ(trial.device_bytes, device_bytes(request, trial.micro_batch, Recompute::none));
    least = std::min(least, trial.step_seconds.value_or(HUGE_VAL));
  }
  std::int64_t largest = 0;
  for (const MicroBatchTrial& trial : choice.trials)
    if (trial.step_seconds && *trial.step_seconds <= kAsFast * least) largest = trial.micro_batch;
  EXPECT_EQ(choice.micro_batch, largest);
  EXPECT_GT(least, 0);
  EXPECT_EQ(context.metered.alive(), 0u);
}

TEST_P(Choice, NeverReservesMoreThanTheLimit) {
  PlanRequest request = request_for(GetParam()());
  std::vector<std::uint64_t> bytes;
  for (const std::int64_t size : even_micro_batches(24, request.ranks))
    bytes.push_back(device_bytes(request, size, Recompute::none));
  const auto [least, most] = std::ranges::minmax(bytes);
  for (int i = 0; i < 4; ++i) {
    request.options.memory_limit = least + (most - least) * std::uint64_t(i) / 4;
    MeteredContext context;
    const MicroBatchChoice choice = choose_micro_batch(context, request, kAnyRoom);
    expect_equal_on_all_ranks(choice);
    EXPECT_LE(context.metered.most_alive(), request.options.memory_limit);
    EXPECT_LE(device_bytes(request, choice.micro_batch, choice.recompute),
              request.options.memory_limit);
    EXPECT_EQ(choice.recompute, Recompute::none);
    EXPECT_FALSE(std::ranges::all_of(choice.trials, &MicroBatchTrial::fits));
    request.options.micro_batch = choice.micro_batch;
    EXPECT_EQ(plan_batch(request.options, request.ranks).global_batch, 24);
    request.options.micro_batch = 0;
  }
}

TEST_P(Choice, ComputesAgainWhereNothingElseFits) {
  PlanRequest request = request_for(GetParam()());
  std::uint64_t none = ~std::uint64_t{0}, all = none;
  for (const std::int64_t size : even_micro_batches(24, request.ranks)) {
    none = std::min(none, device_bytes(request, size, Recompute::none));
    all = std::min(all, device_bytes(request, size, Recompute::all));
  }
  ASSERT_LT(all, none);
  request.options.memory_limit = none - 1;
  MeteredContext context;
  const MicroBatchChoice choice = choose_micro_batch(context, request, kAnyRoom);
  EXPECT_EQ(choice.recompute, Recompute::automatic);
  EXPECT_EQ(choice.memory_limit, none - 1);
  EXPECT_LE(context.metered.most_alive(), none - 1);
  request.options.memory_limit = 1000;
  EXPECT_THROW(choose_micro_batch(context, request, kAnyRoom), OutOfMemory);
}

TEST_P(Choice, IsWhatThereIsRoomFor) {
  PlanRequest request = request_for(GetParam()());
  const std::int64_t most = (24 - 1) / request.ranks + 1;
  const MemoryTarget room{.bytes = device_bytes(request, most, Recompute::none)};
  MeteredContext context;
  const MicroBatchChoice choice = choose_micro_batch(context, request, room);
  expect_equal_on_all_ranks(choice);
  EXPECT_LT(choice.micro_batch, most);
  EXPECT_LE(context.metered.most_alive(), room.bytes);
  EXPECT_FALSE(choice.trials.back().fits);
}

// Loader and snapshot lie in the same memory.
TEST_P(Choice, LeavesRoomForWhatLiesBesideTheDevicesPart) {
  PlanRequest request = request_for(GetParam()());
  PlanRequest fixed = request;
  fixed.options.micro_batch = 1;
  MemoryTarget room{.host = true};
  room.bytes = 2 * room.needed(plan_memory(*testing::make_test_backend(), fixed).table);
  MeteredContext context;
  const MicroBatchChoice choice = choose_micro_batch(context, request, room);
  expect_equal_on_all_ranks(choice);
  fixed.options.micro_batch = choice.micro_batch;
  fixed.options.recompute = choice.recompute;
  fixed.options.memory_limit = choice.memory_limit;
  EXPECT_LE(room.needed(plan_memory(*testing::make_test_backend(), fixed).table), room.bytes);
}

// One rank lacks memory that its plan did not know of: all learn of it, and none waits for it.
TEST_P(Choice, FailsOnAllRanksWhereOneCanReserveNothing) {
  const PlanRequest request = request_for(GetParam()());
  MeteredContext context;
  if (testing::mpi_world().rank() == testing::mpi_world().size() - 1) context.metered.set_limit(0);
  EXPECT_THROW(choose_micro_batch(context, request, kAnyRoom), OutOfMemory);
}

SmallRun resnet() { return testing::small_resnet(); }
SmallRun gpt() { return testing::small_gpt(); }
SmallRun grouped() {
  SmallRun run = testing::small_resnet();
  run.options.batch_norm = BatchNormPolicy::parse("sync");
  return run;
}

INSTANTIATE_TEST_SUITE_P(Models, Choice, ::testing::Values(&resnet, &gpt, &grouped));

TEST(Choice, OfABatchThatNoneDividesIsRefused) {
  PlanRequest request = request_for(testing::small_resnet());
  request.options.batch_norm = BatchNormPolicy::parse("group:17");
  MeteredContext context;
  EXPECT_THROW(choose_micro_batch(context, request, kAnyRoom), ConfigError);
}

}  // namespace
}  // namespace lockstep

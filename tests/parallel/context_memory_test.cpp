// SPDX-License-Identifier: Apache-2.0
// What a plan and a run say that a GPU's context and libraries hold, on the emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/comm/self_communicator.h"
#include "parallel/memory/memory_plan.h"
#include "tests/parallel/context_near.h"
#include "tests/parallel/small_runs.h"

namespace lockstep {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::optional<std::uint64_t> context_of(Backend& backend,
                                        const testing::SmallRun& run = testing::small_resnet()) {
  const auto loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  const PlanRequest request{.model = run.model,
                            .loss = loss,
                            .data = run.data,
                            .options = run.options,
                            .ranks = 1,
                            .on_host = false};
  return plan_memory(backend, request).table[MemoryCategory::context];
}

// Libraries ask the device for memory themselves; here the first backend asks in their place.
TEST(ContextMemory, IsWhatHasGoneSinceTheDeviceWasOpened) {
  const auto others = testing::make_test_backend();
  const auto earlier = others->allocate(5 * kMiB, "another process");
  const auto backend = testing::make_test_backend();
  const auto plain = context_of(*backend);
  ASSERT_TRUE(plain.has_value());
  const auto libraries = others->allocate(3 * kMiB, "libraries");
  EXPECT_EQ(context_of(*backend), *plain + 3 * kMiB);
}

// In addition to what the run has reserved, of which the plan has nothing.
TEST(ContextMemory, OfARunIsThatOfItsPlan) {
  const auto others = testing::make_test_backend();
  SelfCommunicator nobody;
  testing::DeviceContext context(nobody);
  const auto libraries = others->allocate(3 * kMiB, "libraries");
  const testing::SmallRun run{
      [](Builder& nn, Value x) { return nn.linear(nn.flatten(x), {.out_features = 10}); },
      data::glyphs(8, 28),
      {.global_batch = 8, .micro_batch = 4, .steps = 1}};
  const auto planned = context_of(context.backend(), run);
  ASSERT_GE(planned.value(), 3 * kMiB);
  const TrainSummary summary = testing::train(run, context);
  EXPECT_THAT(summary.memory, ::testing::Contains(testing::context_near(*planned)));
}

TEST(ContextMemory, IsUnknownWhereOthersHaveGone) {
  const auto others = testing::make_test_backend();
  auto earlier = others->allocate(5 * kMiB, "another process");
  const auto backend = testing::make_test_backend();
  earlier.reset();
  EXPECT_EQ(context_of(*backend), std::nullopt);
}

}  // namespace
}  // namespace lockstep

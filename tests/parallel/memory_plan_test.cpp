// SPDX-License-Identifier: Apache-2.0
// What is planned is what a replica then reserves, computes and sends, to the byte.
#include "parallel/memory/memory_plan.h"

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <numeric>
#include <tuple>
#include <unistd.h>

#include "core/profile/profiler.h"
#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "lockstep/weights.h"
#include "lockstep/zoo.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/run_samples.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/memory/image_size_use.h"
#include "parallel/replica/replica_state.h"
#include "parallel/training/run_loaders.h"
#include "tests/parallel/discs.h"
#include "tests/parallel/metered_context.h"
#include "tests/parallel/planned_models.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::kPlannedModels;
using testing::MeteredContext;
using testing::SmallRun;

PlanRequest request_for(const SmallRun& run, int ranks = testing::mpi_world().size()) {
  const auto ignored = run.data.train->spec().ignore_index;
  PlanRequest request;
  request.model = run.model;
  request.loss = [ignored](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, ignored);
  };
  request.data = run.data;
  request.options = run.options;
  request.ranks = ranks;
  return request;
}

MemoryPlan plan_own(const PlanRequest& request) {
  return plan_memory(*testing::make_test_backend(), request, testing::mpi_world().rank());
}

std::unique_ptr<Replica> make_replica(RankContext& context, const PlanRequest& request) {
  const BatchPlan batch = plan_batch(request.options, request.ranks);
  const data::DataSplit data = training_data(request.data, request.options);
  return ReplicaState::make_replica(std::make_unique<ReplicaState>(
      context,
      request.model,
      request.loss,
      samples_of(data),
      request.options,
      batch,
      tail_sizes(batch, data.train->size(), data.validation ? data.validation->size() : 0)));
}

void train_one_step(Replica& replica, const PlanRequest& request) {
  const std::int64_t global = request.options.global_batch;
  const Schedule schedule = replica.schedule(global);
  TrainingRequests requests({request.data.train->size(), global, 1, 1, schedule, schedule});
  data::Loader loader(request.data.train,
                      training_loader(request.options, replica.batch()),
                      [&requests](data::LoadRequest& next) { return requests.next(next); });
  replica.train_step(schedule, loader, 0, 0.01f);
  replica.finish_steps();
}

class PlannedRun : public ::testing::TestWithParam<SmallRun (*)()> {};

/// A run on some number of ranks, of which its plan needs none: run on one.
class PlanAlone : public ::testing::TestWithParam<std::tuple<int, SmallRun (*)()>> {
 protected:
  static PlanRequest request() {
    return request_for(std::get<1>(GetParam())(), std::get<0>(GetParam()));
  }
};

TEST_P(PlannedRun, ReservesWhatWasPlanned) {
  const PlanRequest request = request_for(GetParam()());
  const MemoryPlan plan = plan_own(request);
  MeteredContext context;
  const auto replica = make_replica(context, request);
  const MemoryTable actual = ReplicaState::of(*replica).memory();
  EXPECT_EQ(plan.table.arena_bytes, replica->activation_bytes());
  EXPECT_EQ(plan.table.arena_bytes, context.metered.alive("activations and workspace"));
  EXPECT_EQ(plan.limited_bytes, ReplicaState::of(*replica).memory().on_device());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = MemoryCategory(i);
    if (category == MemoryCategory::snapshot || category == MemoryCategory::loader ||
        category == MemoryCategory::image_decoding || category == MemoryCategory::context)
      continue;
    ASSERT_TRUE(plan.table[category].has_value());
    EXPECT_EQ(plan.table[category], actual[category]) << name_of(category);
    sum += *plan.table[category];
  }
  EXPECT_EQ(sum, context.metered.alive()) << "of what was asked of the device, something is in no "
                                             "category";
}

TEST_P(PlannedRun, SendsAndComputesWhatWasPlanned) {
  PlanRequest request = request_for(GetParam()());
  request.options.profile = true;
  const MemoryPlan plan = plan_own(request);
  MeteredContext context;
  const auto replica = make_replica(context, request);
  train_one_step(*replica, request);
  EXPECT_EQ(plan.exchange_bytes_per_step, replica->bytes_sent());
  EXPECT_EQ(plan.exchange_bytes_per_step > 0, request.ranks > 1);

  const Profiler& profiler = *ReplicaState::of(*replica).profiler;
  double own = 0;
  for (std::size_t i = 0; i < profiler.works().size(); ++i)
    own += profiler.works()[i].cost.flops * double(profiler.totals()[i].runs);
  // The profiler has the student alone.
  if (const auto& teacher = ReplicaState::of(*replica).programs.compiled().teacher())
    for (const ShardWork& shard : replica->schedule(request.options.global_batch).work)
      for (const MicroBatch& micro_batch : shard.micro_batches)
        own += flops_of(teacher->program(micro_batch.samples));
  std::vector<double> all(std::size_t(request.ranks));
  testing::mpi_world().all_gather(&own, all.data(), sizeof own);
  const double flops = std::accumulate(all.begin(), all.end(), 0.0);
  // Sums of whole numbers below 2^53.
  EXPECT_EQ(plan.flops_per_step, flops);
}

TEST_P(PlannedRun, LayersAddUp) {
  const MemoryPlan plan = plan_own(request_for(GetParam()()));
  const auto sum = [&](std::uint64_t LayerMemory::*column) {
    std::uint64_t bytes = 0;
    for (const LayerMemory& row : plan.layers) bytes += row.*column;
    return bytes;
  };
  using enum MemoryCategory;
  EXPECT_EQ(sum(&LayerMemory::parameters), *plan.table[parameters]);
  EXPECT_EQ(sum(&LayerMemory::gradients), *plan.table[gradients]);
  EXPECT_EQ(sum(&LayerMemory::optimizer_state), *plan.table[optimizer_state]);
  EXPECT_EQ(sum(&LayerMemory::packed_copies), *plan.table[packed_copies]);
  EXPECT_EQ(sum(&LayerMemory::activations), *plan.table[activations]);
  EXPECT_EQ(sum(&LayerMemory::workspace), *plan.table[workspace]);
  EXPECT_EQ(sum(&LayerMemory::input), *plan.table[input]);
  EXPECT_EQ(*plan.table[activations] + *plan.table[workspace] + *plan.table[input],
            plan.table.arena_bytes);
  EXPECT_EQ(plan.layers.back().layer, "(alignment)");
  EXPECT_LE(plan.layers.back().activations, plan.table.arena_bytes / 10);
}

/// What training would reserve on its device at most; nothing: it refuses the limit or the batch.
std::optional<std::uint64_t> reserved(PlanRequest request,
                                      std::int64_t micro_batch,
                                      Recompute recompute,
                                      std::uint64_t limit) {
  request.options.micro_batch = micro_batch;
  request.options.recompute = recompute;
  request.options.memory_limit = limit;
  try {
    return plan_memory(*testing::make_test_backend(), request).table.on_device();
  } catch (const OutOfMemory&) {
    return std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

TEST_P(PlanAlone, TrainingAcceptsTheLargestMicroBatchAndNoneOfTwiceTheSize) {
  PlanRequest request = PlanAlone::request();
  request.options.batch_norm = {};  // any micro-batch holds whole groups
  const auto backend = testing::make_test_backend();
  for (const Recompute recompute : {Recompute::none, Recompute::automatic}) {
    request.options.recompute = recompute;
    const std::uint64_t limit =
        reserved(request, 3, Recompute::none, 0).value() - (recompute == Recompute::none ? 0 : 1);
    std::int64_t largest = 0;
    for (std::int64_t micro = 1; micro <= request.options.global_batch; ++micro) {
      const auto bytes = reserved(request, micro, recompute, limit);
      if (!bytes) continue;
      EXPECT_LE(*bytes, limit);
      largest = micro;
    }
    const LargestMicroBatch found = largest_micro_batch(*backend, request, limit);
    ASSERT_GT(found.micro_batch, 0) << name_of(recompute);
    EXPECT_TRUE(reserved(request, found.micro_batch, recompute, limit));
    EXPECT_LE(found.bytes, limit);
    EXPECT_LE(largest, 2 * found.micro_batch + 1);
  }
  const LargestMicroBatch none = largest_micro_batch(*backend, request, 1000);
  EXPECT_EQ(none.micro_batch, 0);
  EXPECT_GT(none.bytes, 1000u);
}

/// Expects what a table says to be what the plan of each row says, made on the device itself.
void expect_agreement(PlanRequest request, const std::vector<MicroBatchRow>& rows) {
  const auto backend = testing::make_test_backend();
  request.sizes.reset();
  for (const MicroBatchRow& row : rows)
    for (const Recompute recompute : {Recompute::none, Recompute::all}) {
      request.options.micro_batch = row.micro_batch;
      request.options.recompute = recompute;
      const MemoryPlan plan = plan_memory(*backend, request);  // of rank 0, which has the most
      const MicroBatchMemory& memory = recompute == Recompute::none ? row.none : row.all;
      EXPECT_EQ(memory.arena_bytes, plan.table.arena_bytes) << row.micro_batch;
      EXPECT_EQ(memory.limited_bytes, plan.limited_bytes) << row.micro_batch;
    }
}

TEST_P(PlanAlone, TableByMicroBatchAgreesWithThePlanOfEach) {
  const PlanRequest request = PlanAlone::request();
  const auto rows = micro_batch_table(*testing::make_test_backend(), request);
  ASSERT_GE(rows.size(), 1u);
  expect_agreement(request, rows);
}

INSTANTIATE_TEST_SUITE_P(Models, PlannedRun, kPlannedModels);
INSTANTIATE_TEST_SUITE_P(Models,
                         PlanAlone,
                         ::testing::Combine(::testing::Values(1, 4), kPlannedModels));

class PlanOfResnetAlone : public ::testing::TestWithParam<int> {};

TEST_P(PlanOfResnetAlone, TableHasPowersOfTwo) {
  const auto rows = micro_batch_table(*testing::make_test_backend(),
                                      request_for(testing::small_resnet(), GetParam()));
  ASSERT_GE(rows.size(), 4u);
  EXPECT_EQ(rows[0].micro_batch, 1);
  EXPECT_EQ(rows[1].micro_batch, 2);
}

TEST_P(PlanOfResnetAlone, RequestsThatShareSizesGetTheirOwn) {
  const auto backend = testing::make_test_backend();
  const PlanRequest plain = with_sizes(*backend, request_for(testing::small_resnet(), GetParam()));
  PlanRequest bf16 = plain, frozen = plain, stateful = plain, alone = plain;
  bf16.options.precision = Precision::bf16;
  frozen.options.freeze = {"conv1"};
  stateful.options.optimizer = AdamW{};
  alone.ranks = 1;
  for (const PlanRequest& request : {plain, bf16, frozen, stateful, alone, plain})
    expect_agreement(request, micro_batch_table(*backend, request));
}

INSTANTIATE_TEST_SUITE_P(OnRanks, PlanOfResnetAlone, ::testing::Values(1, 4));

/// The arena cannot be smaller than what is alive at once.
TEST(MemoryPlanAlone, ArenasAreWithinFivePercentOfTheirLowerBound) {
  const auto backend = testing::make_test_backend();
  for (const char* name : {"resnet18", "resnet50", "resnet152", "vgg16"})
    for (const Recompute recompute : {Recompute::none, Recompute::all}) {
      SmallRun run{nn::make_model({.name = name, .outputs = 1000}),
                   data::synthetic(),
                   {.global_batch = 32, .micro_batch = 32, .steps = 1, .recompute = recompute}};
      PlanRequest request = request_for(run);
      request.ranks = 1;
      const MemoryPlan plan = plan_memory(*backend, request);
      EXPECT_LE(double(plan.table.arena_bytes), 1.05 * double(plan.arena_lower_bound)) << name;
      EXPECT_GE(plan.table.arena_bytes, plan.arena_lower_bound);
    }
}

}  // namespace
}  // namespace lockstep

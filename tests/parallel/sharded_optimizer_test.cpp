// SPDX-License-Identifier: Apache-2.0
// Sharding::optimizer: the bits of a run without it, on any ranks, through resumes with other ranks
// and another sharding; what it saves and sends.
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/shared_folder.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

using testing::SharedFolder;
using testing::SmallRun;

Communicator& world() { return testing::mpi_world(); }

/// Of several blocks of a norm for each rank, in several buckets, with a short last batch.
SmallRun mlp() {
  SmallRun run{
      nn::make_model({.name = "mlp", .outputs = 10, .hidden = {300, 140}, .dropout = 0.1f}),
      data::glyphs(64, 16),
      {.global_batch = 30, .micro_batch = 4, .steps = 5}};
  run.options.bucket_mb = 0.3;
  run.options.log_every = 0;
  return run;
}

SmallRun gpt() {
  SmallRun run = testing::small_gpt();
  run.options.log_every = 0;
  return run;
}

SmallRun resnet() {
  SmallRun run = testing::small_resnet();
  run.options.log_every = 0;
  return run;
}

struct Case {
  const char* name;
  SmallRun (*run)();
  Optimizer optimizer;
  float clip_norm = 0;
  float ema = 0;
  Precision precision = Precision::fp32;
  std::vector<std::string> freeze = {};
  float clip_value = 0, clip_agc = 0;
};

SmallRun run_of(const Case& c) {
  SmallRun run = c.run();
  run.options.optimizer = c.optimizer;
  run.options.clip_norm = c.clip_norm;
  run.options.clip_value = c.clip_value;
  run.options.clip_agc = c.clip_agc;
  if (c.ema > 0) run.options.ema = {.decay = c.ema};
  run.options.precision = c.precision;
  run.options.freeze = c.freeze;
  return run;
}

/// The digest that rank 0 alone, without sharding, ends with; on other ranks nothing.
std::string digest_of_one_rank(SmallRun run) {
  run.options.sharding = Sharding::none;
  run.options.checkpoint = {};
  SelfCommunicator self;
  return world().rank() == 0 ? testing::train(run, self).weights_sha256 : std::string();
}

/// What `look` says of the parts of a replica.
template <typename Look>
auto of_parts(const SmallRun& run, Look look) {
  testing::DeviceContext context(world());
  const auto loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  const Replica replica(context, run.model, loss, run.data.train->spec(), run.options, {});
  return look(ReplicaState::of(replica).parts);
}

bool divides(const SmallRun& run) {
  return of_parts(run, [](const ReplicaParts& parts) { return parts.owners != nullptr; });
}

class ShardedOptimizer : public ::testing::TestWithParam<Case> {};

TEST_P(ShardedOptimizer, HasTheBitsOfOneRankWithout) {
  SmallRun run = run_of(GetParam());
  const std::string alone = digest_of_one_rank(run);
  run.options.sharding = Sharding::optimizer;
  const std::string sharded = testing::train(run, world()).weights_sha256;
  EXPECT_EQ(world().rank() == 0 ? sharded : alone, alone);
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    ShardedOptimizer,
    ::testing::Values(Case{"sgd", &mlp, Sgd{.lr = 0.05f, .momentum = 0.9f}},
                      Case{"adamw", &mlp, AdamW{.lr = 0.01f}, 0.5f, 0.9f},
                      Case{"lamb", &mlp, Lamb{}},
                      Case{"muon", &mlp, Muon{}, 0.5f},
                      Case{"bf16", &mlp, AdamW{}, 1.0f, 0.0f, Precision::bf16},
                      Case{"frozen", &mlp, AdamW{}, 0.0f, 0.9f, Precision::fp32, {"0"}},
                      Case{"tied", &gpt, AdamW{}, 1.0f},
                      Case{.name = "value",
                           .run = &mlp,
                           .optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f},
                           .clip_value = 0.001f},
                      Case{.name = "agc",
                           .run = &mlp,
                           .optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f},
                           .clip_agc = 0.01f},
                      Case{.name = "agc_muon", .run = &mlp, .optimizer = Muon{}, .clip_agc = 0.01f},
                      Case{
                          .name = "agc_lamb", .run = &gpt, .optimizer = Lamb{}, .clip_agc = 0.01f}),
    [](const auto& tested) { return tested.param.name; });

TEST(ShardedOptimizerOf, BatchNormHasTheBitsOfOneRankWithout) {
  SmallRun run = resnet();
  run.options.ema = {.decay = 0.9f};
  run.options.sharding = Sharding::optimizer;
  ASSERT_TRUE(divides(run));
  const std::string alone = digest_of_one_rank(run);
  const std::string sharded = testing::train(run, world()).weights_sha256;
  EXPECT_EQ(world().rank() == 0 ? sharded : alone, alone);
}

// Rows of 784 and 300 elements end elsewhere than chunks do.
TEST(ShardedOptimizerOf, ClipsUnitsOfSeveralOwners) {
  SmallRun run = run_of({.name = "", .run = &mlp, .optimizer = Sgd{.lr = 0.05f}});
  run.options.sharding = Sharding::optimizer;
  const auto norm_bytes = [&] {
    return of_parts(run, [](const ReplicaParts& parts) { return parts.optimizer.norm_bytes(); });
  };
  const std::size_t without = norm_bytes();
  const std::string unclipped = digest_of_one_rank(run);
  run.options.clip_agc = 0.01f;
  EXPECT_GT(norm_bytes(), without) << "no unit is in parts";
  const std::string alone = digest_of_one_rank(run);
  EXPECT_TRUE(world().rank() != 0 || alone != unclipped);
}

/// A run of `steps` steps that goes on from the folder's checkpoint where there is one.
std::string go_on(SmallRun run,
                  const std::string& folder,
                  std::int64_t steps,
                  Communicator& ranks) {
  run.options.steps = steps;
  run.options.checkpoint = {.folder = folder, .every_steps = steps, .resume = "auto"};
  return testing::train(run, ranks).weights_sha256;
}

TEST(ShardedOptimizerOf, GoesOnWithOtherRanksAndAnotherSharding) {
  const SharedFolder folder;
  SmallRun run = run_of({"", &mlp, AdamW{.lr = 0.01f}, 0.5f, 0.9f});
  SmallRun sharded = run;
  sharded.options.sharding = Sharding::optimizer;
  ASSERT_TRUE(divides(sharded));
  run.options.steps = 8;
  const std::string undisturbed = digest_of_one_rank(run);
  const bool first = world().rank() == 0;
  const std::unique_ptr<Communicator> pair =
      world().split(world().rank() < 2 ? 0 : 1, world().rank());
  go_on(sharded, folder / "run", 2, world());
  world().barrier();
  SelfCommunicator self;
  if (first) go_on(run, folder / "run", 4, self);
  world().barrier();
  if (world().rank() < 2) go_on(sharded, folder / "run", 6, *pair);
  world().barrier();
  const std::string last = go_on(sharded, folder / "run", 8, world());
  EXPECT_EQ(first ? last : undisturbed, undisturbed);
}

TEST(ShardedOptimizerOf, HoldsAndSendsItsPart) {
  const auto ranks = std::uint64_t(world().size());
  SmallRun run = run_of({"", &mlp, AdamW{}});
  run.options.global_batch = 32;
  const auto measure = [&](Sharding sharding) {
    PlanRequest request;
    request.model = run.model;
    request.loss = [](Builder& nn, Value logits, Value labels) {
      return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
    };
    request.data = run.data;
    request.options = run.options;
    request.options.sharding = sharding;
    request.ranks = world().size();
    // Which is what a replica reserves and sends: memory_plan_test.
    const MemoryPlan plan = plan_memory(*testing::make_test_backend(), request, world().rank());
    return std::pair(*plan.table[MemoryCategory::optimizer_state], plan.exchange_bytes_per_step);
  };
  const auto [whole, sent] = measure(Sharding::none);
  const auto [part, sent_sharded] = measure(Sharding::optimizer);
  EXPECT_LT(double(part), 1.25 * double(whole) / double(ranks));
  // Padding, at most a quarter of what is small here, and eight bytes for each block of a norm.
  EXPECT_LT(double(sent_sharded), 1.25 * double(sent));
}

TEST(ShardedOptimizerOf, NeedsSumsInTheOrderOfTheTree) {
  SmallRun run = mlp();
  run.options.sharding = Sharding::optimizer;
  run.options.reduction = Reduction::fast;
  EXPECT_THROW(testing::train(run, world()), ConfigError);
}

}  // namespace
}  // namespace lockstep

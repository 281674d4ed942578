// SPDX-License-Identifier: Apache-2.0
// Sharding::gradients: the bits of one rank without it, on any ranks, with shards of one and of
// several micro-batches, gradients whole and divided, through resumes with other ranks and another
// sharding; what it saves and sends.
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <string_view>

#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "parallel/exchange/turn_plans.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/training/run_loaders.h"
#include "tests/parallel/sharded_runs.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

using testing::digest_of_one_rank;
using testing::go_on;
using testing::of_one_rank;
using testing::run_of;
using testing::SharedFolder;
using testing::SmallRun;

using Case = testing::ShardedCase;

Communicator& world() { return testing::mpi_world(); }

/// Of eight micro-batches, and one of the last batch.
SmallRun mlp() { return testing::sharded_mlp(); }

/// Of 15, the last one short, and 2 of the last batch.
SmallRun many() {
  SmallRun run = mlp();
  run.options.global_batch = 29;
  run.options.micro_batch = 2;
  return run;
}

SmallRun gpt() {
  SmallRun run = testing::sharded_gpt();
  run.options.micro_batch = 1;
  return run;
}

SmallRun deep() { return testing::deep_mlp(); }

/// Whose tied embedding is most of it, and has the place of all other gradients.
SmallRun embedding() {
  constexpr std::int64_t kTokens = 6000;
  SmallRun run = gpt();
  std::vector<std::uint16_t> words;
  for (int i = 0; i < 2000; ++i) words.push_back(std::uint16_t(i * i % kTokens));
  const data::TokenSequence sequence =
      data::whole_sequence(data::tokens_in_memory(std::move(words)), "test", kTokens);
  run.data = {data::random_windows(sequence.part(0, 1900, "training"), 16, 1, {}),
              data::windows_in_order(sequence.part(1900, 100, "validation"), 16, {})};
  run.model = nn::make_model({.name = "gpt",
                              .outputs = kTokens,
                              .dropout = 0.1f,
                              .layers = 12,
                              .heads = 2,
                              .width = 64,
                              .context = 16});
  run.options.bucket_mb = 0.05;
  run.options.steps = 3;
  return run;
}

/// memory_plan_test compares it with what a replica reserves and sends.
MemoryPlan plan_of(const SmallRun& run, Sharding sharding) {
  PlanRequest request;
  request.model = run.model;
  request.loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  request.data = run.data;
  request.options = run.options;
  request.options.sharding = sharding;
  request.ranks = world().size();
  return plan_memory(*testing::make_test_backend(), request, world().rank());
}

class ShardedGradients : public ::testing::TestWithParam<Case> {};

TEST_P(ShardedGradients, HasTheBitsOfOneRankWithout) {
  SmallRun run = run_of(GetParam());
  const TrainSummary alone = of_one_rank(run);
  run.options.sharding = Sharding::gradients;
  run.options.check_replicas_every = 2;
  const TrainSummary sharded = testing::train(run, world());
  const MemoryPlan plan = plan_of(run, Sharding::gradients);
  if (std::string_view(GetParam().name).starts_with("divided")) {
    EXPECT_GT(plan.gradient_window_bytes, 0u) << plan.why_whole_gradients;
  }
  if (world().rank() != 0) return;
  EXPECT_EQ(sharded.weights_sha256, alone.weights_sha256);
  EXPECT_EQ(sharded.train_loss, alone.train_loss);
  EXPECT_EQ(sharded.val_loss, alone.val_loss);
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    ShardedGradients,
    ::testing::Values(
        Case{"sgd", &mlp, Sgd{.lr = 0.05f, .momentum = 0.9f}},
        Case{"adamw", &mlp, AdamW{.lr = 0.01f}, 0.5f, 0.9f},
        Case{"lamb", &many, Lamb{}, 0.5f},
        Case{"muon", &many, Muon{}},
        Case{.name = "accumulated",
             .run = &many,
             .optimizer = AdamW{.lr = 0.01f},
             .ema = 0.9f,
             .shards = 5},
        Case{"frozen", &many, AdamW{}, 0.0f, 0.9f, Precision::fp32, {"0"}},
        Case{"tied", &gpt, AdamW{}, 1.0f},
        Case{"divided", &deep, Sgd{.lr = 0.05f, .momentum = 0.9f}, 0.5f},
        Case{.name = "divided_lamb",
             .run = &deep,
             .optimizer = Lamb{},
             .ema = 0.9f,
             .freeze = {"2"},
             .clip_agc = 0.01f},
        Case{.name = "divided_bf16",
             .run = &deep,
             .optimizer = AdamW{.lr = 0.01f},
             .precision = Precision::bf16,
             .clip_value = 0.01f},
        Case{"divided_tied", &embedding, AdamW{}, 1.0f},
        Case{.name = "agc_normuon", .run = &mlp, .optimizer = NorMuon{}, .clip_agc = 0.01f},
        Case{.name = "bf16",
             .run = &many,
             .optimizer = AdamW{.lr = 0.01f},
             .clip_norm = 0.5f,
             .ema = 0.9f,
             .precision = Precision::bf16,
             .shards = 7}),
    [](const auto& tested) { return tested.param.name; });

// Statistics are summed shard by shard as gradients are.
TEST(ShardedGradientsOf, BatchNormHasTheBitsOfOneRankWithout) {
  SmallRun run = testing::small_resnet();
  run.options.micro_batch = 4;
  run.options.log_every = 0;
  run.options.overlap = Overlap::off;
  const std::string alone = digest_of_one_rank(run);
  run.options.sharding = Sharding::gradients;
  const std::string sharded = testing::train(run, world()).weights_sha256;
  EXPECT_EQ(world().rank() == 0 ? sharded : alone, alone);
}

// Ranks that form a group, one of which has no micro-batch in the last round, have slots that are
// apart in the tree.
TEST(ShardedGradientsOf, BatchNormOverRanksHasTheBitsWithout) {
  const int ranks = world().size();
  SmallRun run = testing::small_resnet();
  run.options.micro_batch = 2;
  run.options.global_batch = 10 * ranks - 2;
  run.options.batch_norm = BatchNormPolicy::parse("group:" + std::to_string(2 * ranks));
  run.options.log_every = 0;
  const std::string without = testing::train(run, world()).weights_sha256;
  run.options.sharding = Sharding::gradients;
  EXPECT_EQ(testing::train(run, world()).weights_sha256, without);
}

void expect_bits_through_resumes(SmallRun run) {
  const SharedFolder folder;
  SmallRun gradients = run, optimizer = run;
  gradients.options.sharding = Sharding::gradients;
  optimizer.options.sharding = Sharding::optimizer;
  run.options.steps = 8;
  const std::string undisturbed = digest_of_one_rank(run);
  const bool first = world().rank() == 0;
  const std::unique_ptr<Communicator> pair =
      world().split(world().rank() < 2 ? 0 : 1, world().rank());
  go_on(gradients, folder / "run", 2, world());
  world().barrier();
  SelfCommunicator self;
  if (first) go_on(run, folder / "run", 4, self);
  world().barrier();
  if (world().rank() < 2) go_on(gradients, folder / "run", 5, *pair);
  world().barrier();
  go_on(optimizer, folder / "run", 6, world());
  world().barrier();
  const std::string last = go_on(gradients, folder / "run", 8, world());
  EXPECT_EQ(first ? last : undisturbed, undisturbed);
}

TEST(ShardedGradientsOf, GoesOnWithOtherRanksAndAnotherSharding) {
  expect_bits_through_resumes(run_of({"", &many, AdamW{.lr = 0.01f}, 0.5f, 0.9f}));
}

TEST(ShardedGradientsOf, DividedGoesOnWithOtherRanksAndAnotherSharding) {
  const SmallRun run = run_of({"", &deep, AdamW{.lr = 0.01f}, 0.5f, 0.9f});
  EXPECT_GT(plan_of(run, Sharding::gradients).gradient_window_bytes, 0u);
  expect_bits_through_resumes(run);
}

// The norm of each shard is measured where it was computed.
TEST(ShardedGradientsOf, NoiseScaleIsThatOfOneRank) {
  for (const auto& model : {&many, &embedding}) {  // the latter divided
    SmallRun run = model();
    run.options.steps = 10;
    run.options.noise_scale_every = 1;
    run.options.log_every = 1;
    const TrainSummary alone = of_one_rank(run);
    run.options.sharding = Sharding::gradients;
    const TrainSummary sharded = testing::train(run, world());
    if (world().rank() != 0) continue;
    EXPECT_TRUE(alone.noise_scale) << alone.format_noise_scale;
    EXPECT_EQ(sharded.noise_scale, alone.noise_scale);
  }
}

TEST(ShardedGradientsOf, KeepsItsPartOfTheSums) {
  SmallRun run = run_of({"", &mlp, AdamW{}});
  run.options.global_batch = 32;
  run.options.micro_batch = 1;
  const int ranks = world().size();
  const MemoryPlan plan = plan_of(run, Sharding::gradients);
  const double kept = max_kept_sums(plan.batch.shards, ranks, 1);
  const double part = double(*plan.table[MemoryCategory::gradients]) / ranks;
  // Small buckets are kept whole.
  EXPECT_GE(double(*plan.table[MemoryCategory::partial_sums]), kept* part);
  EXPECT_LT(double(*plan.table[MemoryCategory::partial_sums]), 1.1 * kept * part);
}

// What owners keep between turns is where the last turn's sums end as well.
TEST(ShardedGradientsOf, DividesTheGradientsOfAShard) {
  SmallRun run = run_of({"", &deep, AdamW{}});
  const auto bytes = [&](Sharding sharding, MemoryCategory category) {
    return double(*plan_of(run, sharding).table[category]);
  };
  const double whole = bytes(Sharding::optimizer, MemoryCategory::gradients);
  const double window = double(plan_of(run, Sharding::gradients).gradient_window_bytes);
  const int ranks = world().size();
  EXPECT_NEAR(
      bytes(Sharding::gradients, MemoryCategory::gradients), whole / ranks + window, 0.02 * whole);
  EXPECT_LT(window, 0.5 * whole);
  const int kept = max_kept_sums(8, ranks, 1);
  EXPECT_NEAR(bytes(Sharding::gradients, MemoryCategory::partial_sums),
              whole / ranks * (kept - 1),
              0.02 * whole);
}

TEST(ShardedGradientsOf, SaysWhyGradientsAreWhole) {
  const auto reason = [](const std::function<void(TrainOptions&)>& change) {
    SmallRun run = run_of({"", &deep, AdamW{}});
    change(run.options);
    const MemoryPlan plan = plan_of(run, Sharding::gradients);
    EXPECT_EQ(plan.gradient_window_bytes > 0, plan.why_whole_gradients.empty());
    return plan.why_whole_gradients;
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(reason([](TrainOptions&) {}), "");
  EXPECT_THAT(reason([](TrainOptions& o) { o.shards = 5; }), HasSubstr("8 has one in each"));
  EXPECT_THAT(reason([](TrainOptions& o) { o.overlap = Overlap::off; }), HasSubstr("is off"));
  EXPECT_THAT(reason([](TrainOptions& o) { o.optimizer = Muon{}; }), HasSubstr("whole matrices"));
}

// A shard of several micro-batches would add up in a window that others write into.
TEST(ShardedGradientsOf, RefusesStepsWithSeveralMicroBatchesInAShardThatIsDivided) {
  SmallRun run = run_of({"", &deep, AdamW{}});
  run.options.sharding = Sharding::gradients;
  const std::int64_t global = run.options.global_batch;
  testing::DeviceContext context(world());
  Replica replica(
      context, run.model, softmax_cross_entropy, run.data.train->spec(), run.options, {global % 4});
  const Schedule whole = replica.schedule(global);
  EXPECT_THROW(replica.schedule(2 * global), ConfigError);
  TrainingRequests requests({run.data.train->size(), global, 1, 1, whole, whole});
  data::Loader loader(run.data.train,
                      training_loader(run.options, replica.batch()),
                      [&requests](data::LoadRequest& next) { return requests.next(next); });
  const Schedule twice = training_schedule(replica.batch(), 2 * global, world().rank());
  EXPECT_THROW(replica.train_step(twice, loader, 0, 0.01f), ConfigError);
  replica.train_step(whole, loader, 0, 0.01f);
  EXPECT_TRUE(std::isfinite(replica.newest_result().loss));
}

TEST(ShardedGradientsOf, SendsGradientsInEachTurnAndWeightsOnce) {
  SmallRun run = run_of({"", &mlp, AdamW{}});
  run.options.micro_batch = 1;
  const auto sent = [&](int turns) {
    run.options.global_batch = turns * world().size();
    return std::int64_t(plan_of(run, Sharding::gradients).exchange_bytes_per_step);
  };
  const std::int64_t turn = sent(2) - sent(1);
  EXPECT_EQ(sent(5) - sent(4), turn);
  const MemoryPlan plan = plan_of(run, Sharding::gradients);
  std::int64_t pieces = 0;  // of chunked buckets
  for (const Bucket& bucket : plan.buckets)
    if (bucket.sharded) pieces += 4 * (bucket.elems - bucket.elems / world().size());
  EXPECT_GT(pieces, 0);
  EXPECT_GE(turn, pieces);
  EXPECT_LT(double(turn), 1.1 * double(pieces)) << "small buckets are gathered whole";
}

TEST(ShardedGradientsOf, NeedsSumsInTheOrderOfTheTree) {
  SmallRun run = mlp();
  run.options.sharding = Sharding::gradients;
  run.options.reduction = Reduction::fast;
  EXPECT_THROW(testing::train(run, world()), ConfigError);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Sharding::optimizer: the bits of a run without it, on any ranks, through resumes with other ranks
// and another sharding; what it saves and sends.
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/replica_check.h"
#include "parallel/replica/replica_state.h"
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
SmallRun mlp() { return testing::sharded_mlp(); }
SmallRun gpt() { return testing::sharded_gpt(); }

SmallRun resnet() {
  SmallRun run = testing::small_resnet();
  run.options.log_every = 0;
  return run;
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
  const TrainSummary alone = of_one_rank(run);
  run.options.sharding = Sharding::optimizer;
  const TrainSummary sharded = testing::train(run, world());
  if (world().rank() != 0) return;
  EXPECT_EQ(sharded.weights_sha256, alone.weights_sha256);
  EXPECT_EQ(sharded.train_loss, alone.train_loss);
  EXPECT_EQ(sharded.val_loss, alone.val_loss);
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
                      Case{"normuon", &mlp, NorMuon{}, 0.5f},
                      Case{"normuon_gpt", &gpt, NorMuon{}},
                      Case{.name = "bf16_normuon",
                           .run = &mlp,
                           .optimizer = NorMuon{},
                           .ema = 0.9f,
                           .precision = Precision::bf16,
                           .clip_agc = 0.01f},
                      Case{.name = "agc_muon", .run = &mlp, .optimizer = Muon{}, .clip_agc = 0.01f},
                      Case{.name = "agc_lamb", .run = &gpt, .optimizer = Lamb{}, .clip_agc = 0.01f},
                      Case{.name = "bf16_sgd",
                           .run = &mlp,
                           .optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f},
                           .precision = Precision::bf16,
                           .clip_value = 0.001f,
                           .shards = 4},
                      Case{.name = "bf16_adamw",
                           .run = &mlp,
                           .optimizer = AdamW{.lr = 0.01f},
                           .ema = 0.9f,
                           .precision = Precision::bf16,
                           .freeze = {"0"},
                           .shards = 5},
                      Case{.name = "bf16_lamb",
                           .run = &mlp,
                           .optimizer = Lamb{},
                           .ema = 0.9f,
                           .precision = Precision::bf16,
                           .clip_agc = 0.01f},
                      Case{.name = "bf16_muon",
                           .run = &mlp,
                           .optimizer = Muon{},
                           .clip_norm = 0.5f,
                           .precision = Precision::bf16},
                      Case{.name = "bf16_tied",
                           .run = &gpt,
                           .optimizer = AdamW{},
                           .clip_norm = 1.0f,
                           .ema = 0.9f,
                           .precision = Precision::bf16}),
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

void expect_bits_through_resumes(Precision precision) {
  const SharedFolder folder;
  SmallRun run = run_of({"", &mlp, AdamW{.lr = 0.01f}, 0.5f, 0.9f, precision});
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

TEST(ShardedOptimizerOf, GoesOnWithOtherRanksAndAnotherSharding) {
  expect_bits_through_resumes(Precision::fp32);
}

// The checkpoints hold what owners have in fp32.
TEST(ShardedOptimizerOf, GoesOnInBf16WithOtherRanksAndAnotherSharding) {
  expect_bits_through_resumes(Precision::bf16);
}

/// What a replica reserves and sends: memory_plan_test.
MemoryPlan plan_of(const SmallRun& run) {
  PlanRequest request;
  request.model = run.model;
  request.loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  request.data = run.data;
  request.options = run.options;
  request.ranks = world().size();
  return plan_memory(*testing::make_test_backend(), request, world().rank());
}

TEST(ShardedOptimizerOf, HoldsAndSendsItsPart) {
  const auto ranks = std::uint64_t(world().size());
  SmallRun run = run_of({"", &mlp, AdamW{}});
  run.options.global_batch = 32;
  const auto measure = [&](Sharding sharding) {
    run.options.sharding = sharding;
    const MemoryPlan plan = plan_of(run);
    return std::pair(*plan.table[MemoryCategory::optimizer_state], plan.exchange_bytes_per_step);
  };
  const auto [whole, sent] = measure(Sharding::none);
  const auto [part, sent_sharded] = measure(Sharding::optimizer);
  EXPECT_LT(double(part), 1.25 * double(whole) / double(ranks));
  // Padding, at most a quarter of what is small here, and eight bytes for each block of a norm.
  EXPECT_LT(double(sent_sharded), 1.25 * double(sent));
}

// Of matrices alone: half of the bytes are gradients, and of the weights in bf16 half are left.
TEST(ShardedOptimizerOf, SendsThreeQuartersInBf16) {
  const auto ranks = world().size();
  SmallRun run = run_of({"", &mlp, Sgd{}});
  run.model = [](Builder& nn, Value x) {
    x = nn.linear(nn.flatten(x), {.out_features = 512, .bias = false});
    x = nn.linear(nn.relu(x), {.out_features = 512, .bias = false});
    return nn.linear(nn.relu(x), {.out_features = 10, .bias = false});
  };
  run.options.global_batch = 32;
  run.options.bucket_mb = 8;   // no rest of a tensor in a bucket that is not sharded
  run.options.shards = ranks;  // one subtree a rank
  run.options.sharding = Sharding::optimizer;
  const MemoryPlan fp32 = plan_of(run);
  run.options.precision = Precision::bf16;
  const MemoryPlan bf16 = plan_of(run);
  std::uint64_t weights = 0;  // that a rank owns
  for (const Bucket& bucket : bf16.buckets) {
    EXPECT_EQ(bucket.bf16_elems, bucket.sharded ? bucket.elems : 0);
    if (bucket.sharded) weights += std::uint64_t(bucket.elems / ranks);
  }
  EXPECT_GT(weights * std::uint64_t(ranks), 650'000u);
  EXPECT_EQ(fp32.exchange_bytes_per_step - bf16.exchange_bytes_per_step,
            2 * weights * std::uint64_t(ranks - 1));
  // Metrics, and eight bytes for each block of a norm.
  EXPECT_NEAR(double(bf16.exchange_bytes_per_step),
              0.75 * double(fp32.exchange_bytes_per_step),
              0.002 * double(fp32.exchange_bytes_per_step));
}

/// The bits of a rank's weights are compared as all ranks have them: rounded, where owners send
/// them so.
TEST(ShardedOptimizerOf, ReplicasAreComparedInBf16) {
  SmallRun run = run_of({"", &mlp, AdamW{}, 0, 0, Precision::bf16});
  run.options.sharding = Sharding::optimizer;
  testing::DeviceContext context(world());
  const auto loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
  };
  Replica replica(context, run.model, loss, run.data.train->spec(), run.options, {});
  ReplicaState& state = ReplicaState::of(replica);
  ASSERT_TRUE(state.parts.owners && state.parts.owners->rounds_weights());
  const Segment* sent = nullptr;
  std::int64_t before = 0;  // elements that are compared before those of the segment
  for (const ComparedTensor& tensor : compared_tensors(state.saved_arrays())) {
    if (tensor.array != 0) break;
    const Segment& segment = state.programs.space().of(tensor.parameter);
    if (segment.bf16) sent = &segment;
    if (sent != nullptr) break;
    before += tensor.range.elems;
  }
  ASSERT_NE(sent, nullptr);
  ReplicaCheck check(context, state.saved_arrays(), 1);
  EXPECT_NO_THROW(check.check_now(0));
  const int last = world().size() - 1;
  const auto flip = [&](int bit) {
    if (world().rank() == last) state.flip_bit(0, before + 70, bit);
  };
  flip(0);
  EXPECT_NO_THROW(check.check_now(1)) << "no kernel sees it";
  flip(0);
  flip(25);
  EXPECT_THROW(check.check_now(2), DivergedError);
}

TEST(ShardedOptimizerOf, NeedsSumsInTheOrderOfTheTree) {
  SmallRun run = mlp();
  run.options.sharding = Sharding::optimizer;
  run.options.reduction = Reduction::fast;
  EXPECT_THROW(testing::train(run, world()), ConfigError);
}

}  // namespace
}  // namespace lockstep

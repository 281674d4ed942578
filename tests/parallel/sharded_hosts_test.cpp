// SPDX-License-Identifier: Apache-2.0
// Sharded optimizers and gradients on ranks that claim to be on several hosts, so that sums and
// weights travel on two levels: the bits of one rank without it, through resumes on other hosts;
// and what it sends.
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <utility>

#include "lockstep/replica.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/claimed_hosts.h"
#include "tests/parallel/sharded_runs.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

using namespace testing;

Communicator& world() { return mpi_world(); }

/// Ranks on each of two hosts or more.
std::vector<int> claims() {
  std::vector<int> all;
  for (int per_host = 2; per_host < world().size(); ++per_host)
    if (world().size() % per_host == 0) all.push_back(per_host);
  return all;
}

class ShardedOnHosts : public ::testing::TestWithParam<ShardedCase> {};

TEST_P(ShardedOnHosts, HasTheBitsOfOneRankWithout) {
  SmallRun run = run_of(GetParam());
  const TrainSummary alone = of_one_rank(run);
  run.options.sharding = GetParam().sharding;
  run.options.check_replicas_every = 2;
  run.options.memory_limit = std::uint64_t{4} << 30;  // the plan that is checked knows no hosts
  for (const int per_host : claims()) {
    SCOPED_TRACE(per_host);
    Traffic traffic;
    ClaimedHosts hosts(world(), per_host, traffic);
    const TrainSummary sharded = train(run, hosts);
    EXPECT_GT(traffic.collectives_in_parts, 0);
    if (world().rank() != 0) continue;
    EXPECT_EQ(sharded.weights_sha256, alone.weights_sha256);
    EXPECT_EQ(sharded.train_loss, alone.train_loss);
    EXPECT_EQ(sharded.val_loss, alone.val_loss);
  }
}

const auto mlp = &sharded_mlp;

/// Large enough to be sharded by six ranks, with a micro-batch for each.
SmallRun wide_gpt() {
  SmallRun run = sharded_gpt();
  run.options.micro_batch = 1;
  run.model = nn::make_model({.name = "gpt",
                              .outputs = 31,
                              .dropout = 0.1f,
                              .layers = 4,
                              .heads = 2,
                              .width = 48,
                              .context = 16});
  return run;
}

/// Of 15, and 2 of the last batch.
SmallRun many_micro_batches() {
  SmallRun run = sharded_mlp();
  run.options.micro_batch = 2;
  return run;
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    ShardedOnHosts,
    ::testing::Values(ShardedCase{"adamw", mlp, AdamW{.lr = 0.01f}, 0.5f, 0.9f},
                      ShardedCase{"lamb", mlp, Lamb{}, 0.5f},
                      ShardedCase{"muon", mlp, Muon{}, 0.5f},
                      ShardedCase{"frozen", mlp, AdamW{}, 0.0f, 0.9f, Precision::fp32, {"0"}},
                      ShardedCase{"tied", &wide_gpt, AdamW{}, 1.0f},
                      ShardedCase{.name = "agc_normuon",
                                  .run = mlp,
                                  .optimizer = NorMuon{},
                                  .ema = 0.9f,
                                  .clip_agc = 0.01f},
                      ShardedCase{.name = "bf16_adamw",
                                  .run = mlp,
                                  .optimizer = AdamW{.lr = 0.01f},
                                  .clip_norm = 0.5f,
                                  .ema = 0.9f,
                                  .precision = Precision::bf16,
                                  .shards = 6},
                      ShardedCase{.name = "gradients",
                                  .run = &deep_mlp,  // divided
                                  .optimizer = AdamW{.lr = 0.01f},
                                  .clip_norm = 0.5f,
                                  .sharding = Sharding::gradients},
                      ShardedCase{.name = "gradients_bf16",
                                  .run = &many_micro_batches,
                                  .optimizer = Lamb{},
                                  .ema = 0.9f,
                                  .precision = Precision::bf16,
                                  .shards = 13,
                                  .sharding = Sharding::gradients},
                      ShardedCase{.name = "bf16_muon",
                                  .run = mlp,
                                  .optimizer = Muon{},
                                  .precision = Precision::bf16}),
    [](const auto& tested) { return tested.param.name; });

/// Rows of numbers, one of which is not finite.
class WithOneBadRow final : public data::Dataset {
 public:
  WithOneBadRow() {
    spec_.input = {Shape{kNumbers}, DType::f32};
    spec_.target = {Shape{}, DType::i32};
    spec_.classes = 10;
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return 64; }
  void load(std::uint64_t, std::int64_t i, std::byte* input, std::byte* target) const override {
    auto* const row = reinterpret_cast<float*>(input);
    for (std::int64_t k = 0; k < kNumbers; ++k) row[k] = float((i * (2 * k + 3)) % 23) / 11 - 1;
    if (i == 40) row[7] = std::numeric_limits<float>::infinity();
    *reinterpret_cast<std::int32_t*>(target) = std::int32_t(i % 10);
  }
  std::string describe() const override { return "rows"; }
  std::uint64_t fingerprint() const override { return 5; }

 private:
  static constexpr std::int64_t kNumbers = 400;
  data::SampleSpec spec_;
};

TEST(ShardedOnHostsOf, SkippedStepsHaveTheBitsOfOneRank) {
  struct Skipping {
    SmallRun (*model)();
    Precision precision;
    Sharding sharding;
  };
  for (const auto& [model, precision, sharding] :
       {Skipping{&sharded_mlp, Precision::fp32, Sharding::optimizer},
        Skipping{&sharded_mlp, Precision::bf16, Sharding::optimizer},
        Skipping{&deep_mlp, Precision::fp32, Sharding::gradients}}) {  // divided
    SmallRun run = model();
    run.data = {std::make_shared<WithOneBadRow>(), nullptr};
    run.options.optimizer = AdamW{.lr = 0.01f};
    run.options.clip_norm = 0.5f;
    run.options.on_nonfinite = OnNonfinite::skip;
    run.options.precision = precision;
    run.options.sharding = Sharding::none;
    const TrainSummary alone = of_one_rank(run);
    run.options.sharding = sharding;
    Traffic traffic;
    ClaimedHosts hosts(world(), claims().front(), traffic);
    const TrainSummary sharded = train(run, hosts);
    EXPECT_GT(sharded.skipped_steps, 0);
    if (world().rank() != 0) continue;
    EXPECT_EQ(sharded.weights_sha256, alone.weights_sha256);
    EXPECT_EQ(sharded.skipped_steps, alone.skipped_steps);
  }
}

// Two clusters of half the ranks: each turn has shards of both in every slot of the tree.
TEST(ShardedOnHostsOf, BatchNormOfHalfTheRanksHasTheBitsOfOneClusterWithout) {
  const int ranks = world().size();
  SmallRun run = small_resnet();
  run.options.micro_batch = 2;
  run.options.global_batch = 8 * ranks - 2;
  run.options.batch_norm = BatchNormPolicy::parse("group:" + std::to_string(ranks));
  run.options.log_every = 0;
  const std::unique_ptr<Communicator> half = world().split(world().rank() % 2, world().rank());
  const std::string without = train(run, *half).weights_sha256;
  run.options.sharding = Sharding::gradients;
  Traffic traffic;
  ClaimedHosts hosts(world(), claims().front(), traffic);
  EXPECT_EQ(train(run, hosts).weights_sha256, without);
}

// Owners of other chunks on each way: on hosts, on none, on one rank, on other hosts.
void expect_bits_through_resumes(Precision precision) {
  const SharedFolder folder;
  SmallRun run = run_of({"", mlp, AdamW{.lr = 0.01f}, 0.5f, 0.9f, precision});
  SmallRun sharded = run;
  sharded.options.sharding = Sharding::optimizer;
  run.options.steps = 8;
  const std::string undisturbed = digest_of_one_rank(run);
  Traffic traffic;
  ClaimedHosts first(world(), claims().front(), traffic), last(world(), claims().back(), traffic);
  SelfCommunicator self;
  go_on(sharded, folder / "run", 2, first);
  world().barrier();
  go_on(sharded, folder / "run", 4, world());
  world().barrier();
  if (world().rank() == 0) go_on(run, folder / "run", 6, self);
  world().barrier();
  const std::string digest = go_on(sharded, folder / "run", 8, last);
  EXPECT_GT(traffic.collectives_in_parts, 0);
  EXPECT_EQ(world().rank() == 0 ? digest : undisturbed, undisturbed);
}

TEST(ShardedOnHostsOf, GoesOnOnOtherHosts) { expect_bits_through_resumes(Precision::fp32); }

TEST(ShardedOnHostsOf, GoesOnOnOtherHostsInBf16) { expect_bits_through_resumes(Precision::bf16); }

std::uint64_t sum_over_ranks(std::uint64_t own) {
  std::vector<std::uint64_t> all(std::size_t(world().size()));
  world().all_gather(&own, all.data(), sizeof own);
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

constexpr auto kLoss = [](Builder& nn, Value logits, Value labels) {
  return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
};

// Of w bytes of weights H hosts send w (H - 1) / H each, and reserve what is planned without hosts.
TEST(ShardedOnHostsOf, WeightsGoToEachHostOnce) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    SmallRun run = run_of({"", mlp, AdamW{}, 0.5f, 0.9f, precision});
    run.options.sharding = Sharding::optimizer;
    PlanRequest request;
    request.model = run.model;
    request.loss = kLoss;
    request.data = run.data;
    request.options = run.options;
    request.ranks = world().size();
    const MemoryPlan plan = plan_memory(*make_test_backend(), request, world().rank());
    for (const int per_host : claims()) {
      Traffic traffic;
      ClaimedHosts claimed(world(), per_host, traffic);
      DeviceContext context(claimed);
      Replica replica(context, run.model, kLoss, run.data.train->spec(), run.options, {});
      ReplicaState& state = ReplicaState::of(replica);
      ReplicaParts& parts = state.parts;
      EXPECT_EQ(parts.communication_bytes(), plan.table[MemoryCategory::communication]);
      EXPECT_EQ(parts.partial_sum_bytes(), plan.table[MemoryCategory::partial_sums]);
      std::uint64_t weights = 0;
      for (const Bucket& bucket : state.programs.space().buckets)
        if (bucket.sharded) weights += std::uint64_t(weight_bytes(bucket));
      ASSERT_GT(weights, 0u);
      const SentBytes before = parts.owners->sent();
      traffic.network_bytes = 0;
      parts.owners->share_weights(state.programs.parameters());
      const SentBytes sent = parts.owners->sent() - before;
      EXPECT_EQ(sent.network, traffic.network_bytes);
      const auto other_hosts = std::uint64_t(world().size() / per_host - 1);
      const auto others = std::uint64_t(world().size() - 1);
      const std::uint64_t network = sum_over_ranks(sent.network), all = sum_over_ranks(sent.all);
      if (precision == Precision::fp32) {
        EXPECT_EQ(network, weights * other_hosts);
        EXPECT_EQ(all, weights * others);
      } else {  // messages are padded by a sixteenth at most
        EXPECT_GE(network, weights * other_hosts);
        EXPECT_LE(16 * network, 17 * weights * other_hosts);
        EXPECT_LE(16 * all, 17 * weights * others);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

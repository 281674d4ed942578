// SPDX-License-Identifier: Apache-2.0
// What holds exactly for any number of ranks, of the library's own training.
#include "parallel/simulation/simulation.h"

#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/simulation/simulated_training.h"

namespace lockstep::simulation {
namespace {

using Loads = std::map<int, std::int64_t>;

class AnyRanks : public ::testing::TestWithParam<int> {};

TEST_P(AnyRanks, SumsAndSamplesAreThoseOfOneRank) {
  const SimulationRequest request = small_training(GetParam());
  const SimulationResult result = simulate(request);
  expect_good(result);
  EXPECT_EQ(result.checked_elems, result.expected_elems);
  EXPECT_EQ(result.checked_elems % (4 * GetParam()), 0);
  EXPECT_EQ(result.loads.at(0), (Loads{{1, 4096}}));
  EXPECT_EQ(result.tree, expected_sum(request.options, 1, 1024));
  EXPECT_LE(result.max_micro_batches - result.min_micro_batches, 1);
}

INSTANTIATE_TEST_SUITE_P(Simulation, AnyRanks, ::testing::Values(1, 2, 3, 7, 8, 24, 64));

TEST(Simulation, RanksMayComeInAnyOrder) {
  SimulationRequest request = small_training(12, 4);
  const Traffic by_time = simulate(request).all.front();
  request.cluster.order = RankOrder::random;
  for (std::uint64_t& seed = request.cluster.order_seed; seed <= 20; ++seed) {
    const SimulationResult result = simulate(request);
    expect_good(result);
    EXPECT_EQ(result.all.front().calls, by_time.calls) << seed;
  }
}

TEST(Simulation, RanksOnProcessorsExchangeByMessages) {
  SimulationRequest request = small_training(6, 3);
  request.cluster.device.gpu = false;
  for (const RankOrder order : {RankOrder::by_time, RankOrder::random}) {
    request.cluster.order = order;
    const SimulationResult result = simulate(request);
    expect_good(result);
    EXPECT_EQ(result.checked_elems, result.expected_elems);
    EXPECT_EQ(result.tree, expected_sum(request.options, 1, 1024));
  }
}

TEST(Simulation, ShardedStateIsUpdatedOnceFromTheSameSums) {
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients}) {
    SimulationRequest request = small_training(8, 4);
    request.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {512, 512}});
    request.options.sharding = sharding;
    const SimulationResult result = simulate(request);
    expect_good(result);
    EXPECT_EQ(result.checked_elems, result.expected_elems);
    EXPECT_EQ(result.tree, expected_sum(request.options, 1, 1024));
  }
}

TEST(Simulation, SmallBucketsAreFollowedToo) {
  SimulationRequest request = small_training(6, 3);
  request.options.bucket_mb = 0.01;
  const SimulationResult result = simulate(request);
  expect_good(result);
  EXPECT_EQ(result.checked_elems, result.expected_elems);
}

TEST(Simulation, EveryOptimizerReadsEachSumOnce) {
  const std::vector<Optimizer> optimizers{
      Sgd{}, AdamW{}, Adam{}, RmsProp{}, Lion{}, Lars{}, Lamb{}, Muon{}, NorMuon{}};
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    SimulationRequest request = small_training(3, 3);
    request.options.optimizer = optimizers[i];
    request.options.steps = 2;
    const SimulationResult result = simulate(request);
    expect_good(result);
    EXPECT_EQ(result.checked_elems, result.expected_elems) << "optimizer " << i;
  }
}

TEST(Simulation, GroupsOfBatchNormSpanRanks) {
  SimulationRequest request = small_training(8, 4);
  request.model = nn::make_model({.name = "convnet", .outputs = 10});
  request.options.batch_norm = BatchNormPolicy::parse("group:16");  // of two ranks each
  request.options.steps = 2;
  const SimulationResult result = simulate(request);
  expect_good(result);
}

TEST(Simulation, AnEpochsLastBatchIsShort) {
  SimulationRequest request = small_training(7, 7);
  request.dataset_size = 3000;
  request.options.steps = 6;
  const SimulationResult result = simulate(request);
  expect_good(result);
  EXPECT_EQ(result.loads.at(0), (Loads{{1, 3000}}));
  EXPECT_EQ(result.loads.at(1), (Loads{{1, 3000}}));
}

TEST(Simulation, TimesFollowTheModels) {
  SimulationRequest request = small_training(16, 8);
  const double step = simulate(request).steps.back().end - simulate(request).steps.back().begin;
  request.cluster.network.between.bytes_per_s /= 1000;
  const SimulationResult slow = simulate(request);
  EXPECT_GT(slow.steps.back().end - slow.steps.back().begin, 2 * step)
      << "a slower network between hosts";
  EXPECT_EQ(slow.all.front().bytes, simulate(request).all.front().bytes);
}

/// Samples of an epoch are loaded once, also where another number of ranks goes on in it.
TEST(Simulation, ResumesOnOtherRanks) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "simulated_checkpoints";
  std::filesystem::remove_all(folder);
  SimulationRequest request = small_training(8, 4);
  request.options.steps = 62;
  request.options.checkpoint.folder = folder;
  request.options.checkpoint.every_steps = 1000;  // and at the end
  request.options.stop = [] { return true; };
  const SimulationResult first = simulate(request);
  expect_good(first);
  ASSERT_LT(first.steps.size(), 60u);
  ASSERT_NE(first.steps.size() % 4, 0u) << "in the middle of an epoch";
  request = small_training(12, 4);
  request.options.steps = 62;
  request.options.checkpoint.folder = folder;
  request.options.checkpoint.resume = folder / fmt::format("step_{:08}", first.steps.size());
  const SimulationResult second = simulate(request);
  expect_good(second);
  EXPECT_EQ(first.steps.size() + second.steps.size(), 62u);
  for (std::uint64_t epoch = 0; epoch < 15; ++epoch) {
    std::int64_t once = 0;
    for (const SimulationResult* result : {&first, &second})
      if (const auto loads = result->loads.find(epoch); loads != result->loads.end()) {
        once += loads->second.at(1);
        EXPECT_EQ(loads->second.count(2), 0u) << "twice in epoch " << epoch;
      }
    EXPECT_EQ(once, 4096) << "epoch " << epoch;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::simulation

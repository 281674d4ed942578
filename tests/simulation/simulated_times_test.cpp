// SPDX-License-Identifier: Apache-2.0
// Times of simulated steps: measured kernels, cores that ranks share, waits for the exchange.
#include <gmock/gmock.h>

#include "tests/simulation/simulated_training.h"

namespace lockstep::simulation {
namespace {

constexpr double kKernel = 1e-3;

/// Names of the kernels of `request`, each of which is to take kKernel.
std::shared_ptr<KernelTimes> millisecond_kernels(SimulationRequest request) {
  auto times = std::make_shared<KernelTimes>();
  times->peaks = {.fp32_flops = 1e15, .bf16_flops = 1e15, .bytes = 1e15};
  request.cluster.device.times = times;
  request.options.steps = 1;
  for (const std::string& name : simulate(request).kernels.missing) times->seconds[name] = kKernel;
  return times;
}

SimulationRequest on_processors(int ranks) {
  SimulationRequest request = small_training(ranks, 1024);
  request.cluster.network = shared_memory_network();
  request.cluster.traces_sums = false;
  request.cluster.device.gpu = false;
  request.cluster.device.launch_s = 0;
  request.cluster.device.times = millisecond_kernels(request);
  return request;
}

double step_of(const SimulationRequest& request) {
  const SimulationResult result = simulate(request);
  expect_good(result);
  EXPECT_TRUE(result.kernels.missing.empty());
  return result.steps.back().end - result.steps.back().begin;
}

TEST(SimulatedTimes, KernelsTakeWhatWasMeasured) {
  SimulationRequest request = on_processors(1);
  const double step = step_of(request);
  auto slower = std::make_shared<KernelTimes>(*request.cluster.device.times);
  for (auto& [name, seconds] : slower->seconds) seconds *= 2;
  slower->step_s = 0.5;
  request.cluster.device.times = slower;
  EXPECT_NEAR(step_of(request), 2 * step + 0.5, 0.01 * step);
}

TEST(SimulatedTimes, RanksTakeTurnsOnTheCoresOfAHost) {
  SimulationRequest request = on_processors(8);
  const double each = step_of(request);
  request.cluster.device.cores = 2;
  EXPECT_NEAR(step_of(request), 4 * each, 0.02 * 4 * each);
  request.cluster.device.contention = 1.5;
  EXPECT_NEAR(step_of(request), 6 * each, 0.02 * 6 * each);
  request.cluster.device.cores = 8;
  request.cluster.device.contention = 1;
  EXPECT_NEAR(step_of(request), each, 0.02 * each);
  request.cluster.network.ranks_per_host = 4;  // two hosts, whose cores are their own
  request.cluster.device.cores = 2;
  EXPECT_NEAR(step_of(request), 2 * each, 0.02 * 2 * each);
}

TEST(SimulatedTimes, CoresMoveWhatRanksOfAHostSend) {
  SimulationRequest request = on_processors(4);
  request.cluster.device.cores = 4;
  const SimulationResult fast = simulate(request);
  request.cluster.network.inside.bytes_per_s /= 1e4;
  const SimulationResult slow = simulate(request);
  const double added = slow.steps.back().end - slow.steps.back().begin -
                       (fast.steps.back().end - fast.steps.back().begin);
  EXPECT_GT(added, 0.01);
  EXPECT_NEAR(slow.steps.back().exposed - fast.steps.back().exposed, added, 0.5 * added)
      << "what backward does not hide is exposed";
}

TEST(SimulatedTimes, RanksThatHaveWaitedAreWithoutTheirCoreForATurn) {
  SimulationRequest request = on_processors(4);
  request.cluster.device.cores = 2;
  const double step = step_of(request);
  request.cluster.device.turn_s = 0.1;
  EXPECT_GT(step_of(request), step + 0.1);
  request.cluster.device.cores = 4;
  const double alone = step_of(request);
  request.cluster.device.turn_s = 0;
  EXPECT_EQ(step_of(request), alone) << "no core is shared";
}

TEST(SimulatedTimes, MeasuredStepsDifferByTheirFactors) {
  SimulationRequest request = on_processors(1);
  const double step = step_of(request);
  auto spread = std::make_shared<KernelTimes>(*request.cluster.device.times);
  spread->step_factors = {1, 3};
  request.cluster.device.times = spread;
  const SimulationResult result = simulate(request);
  double least = 1e9, most = 0;
  for (const SimulatedStep& one : result.steps) {
    least = std::min(least, one.end - one.begin);
    most = std::max(most, one.end - one.begin);
  }
  EXPECT_GT(least, 0.99 * step);
  EXPECT_LT(most, 3.01 * step);
  EXPECT_GT(most, least);
}

// A rank that adds lets others have its core in the middle of its sums.
TEST(SimulatedTimes, SumsAreFollowedWhereRanksTakeTurnsOnCores) {
  const auto tree_of = [](int ranks) {
    SimulationRequest request = on_processors(ranks);
    request.cluster.traces_sums = true;
    request.cluster.device.cores = 2;
    return simulate(request).tree;
  };
  const Expression alone = tree_of(1);
  EXPECT_NE(alone, kUnknown);
  for (const int ranks : {2, 4, 8}) EXPECT_EQ(tree_of(ranks), alone) << ranks << " ranks";
}

TEST(SimulatedTimes, GpusWaitForTheExchangeThatBackwardDoesNotHide) {
  SimulationRequest request = small_training(16, 8);
  request.cluster.traces_sums = false;
  const SimulatedStep fast = simulate(request).steps.back();
  request.cluster.network.between.bytes_per_s /= 1000;
  const SimulatedStep slow = simulate(request).steps.back();
  EXPECT_LE(slow.exposed, slow.end - slow.begin);
  EXPECT_NEAR(slow.exposed - fast.exposed,
              (slow.end - slow.begin) - (fast.end - fast.begin),
              0.1 * slow.exposed);
}

}  // namespace
}  // namespace lockstep::simulation

// SPDX-License-Identifier: Apache-2.0
#include "parallel/cost/cost_model.h"

#include <chrono>
#include <cmath>
#include <gtest/gtest.h>

#include "lockstep/error.h"
#include "parallel/exchange/exchange_plan.h"

namespace lockstep {
namespace {

constexpr double kMiB = 1 << 20;

// Powers of two and short decimals: sums of a few such terms are off by a few roundings.
constexpr double kRounding = 1e-12;

Network two_a_host() { return {"test", "", {1e-6, 1e9}, {1e-5, 2e8}, 2}; }

Workload one_bucket(double bytes, double ready = 1) {
  return {.buckets = {{bytes, ready}}, .micro_batch = 8, .backward_share = 0.5};
}

double communication(const Workload& work, int ranks, double subtrees = 1) {
  return predict(work, {two_a_host(), 0}, {}, {ranks, 8, subtrees}).communication_s;
}

TEST(CostModel, OneRankSendsNothing) {
  const StepCost cost = predict(
      one_bucket(kMiB), {two_a_host(), 0}, {.fixed_s = 0.5, .per_sample_s = 0.25}, {1, 8, 1});
  EXPECT_EQ(cost.communication_s, 0);
  EXPECT_EQ(cost.exposed_s, 0);
  EXPECT_EQ(cost.step_s(), 2.5);
}

TEST(CostModel, ALargeBucketGoesToEveryRankTwice) {
  // One host: 2 (N - 1) / N n bytes and 2 (N - 1) messages.
  EXPECT_NEAR(communication(one_bucket(kMiB), 2), 2e-6 + kMiB / 1e9, kRounding);
  // Two hosts of two: one message inside, two outside, and both ranks share the host's adapter.
  EXPECT_NEAR(communication(one_bucket(kMiB), 4),
              2 * (1e-6 + 2e-5) + 2 * kMiB / 4 * (1 / 1e9 + 2 * 2 / 2e8),
              kRounding);
  // Three subtrees a rank: three all-to-alls, one all-gather.
  EXPECT_NEAR(communication(one_bucket(kMiB), 2, 3), 2e-6 + (3 + 1) * kMiB / 2 / 1e9, kRounding);
}

TEST(CostModel, OnTwoLevelsOneSumOfEachHostCrossesTheNetwork) {
  const auto on_two_levels = [](int ranks, double subtrees) {
    return predict(one_bucket(kMiB), {two_a_host(), 0}, {}, {ranks, 8, subtrees, true})
        .communication_s;
  };
  // On two hosts of two, each rank sends half of the bucket to the other, twice; then both together
  // a half of it to the other host, twice.
  EXPECT_NEAR(on_two_levels(4, 1), 2 * (1e-6 + 1e-5) + kMiB / 1e9 + 2 * kMiB / 2 / 2e8, kRounding);
  // Three subtrees a rank travel on the host alone.
  EXPECT_NEAR(
      on_two_levels(4, 3), 2 * (1e-6 + 1e-5) + 2 * kMiB / 1e9 + 2 * kMiB / 2 / 2e8, kRounding);
  // Hosts with two nodes each: two sums there, one back.
  const RankShare two_nodes{4, 8, 3, true, 2};
  EXPECT_NEAR(predict(one_bucket(kMiB), {two_a_host(), 0}, {}, two_nodes).communication_s,
              2 * (1e-6 + 1e-5) + 2 * kMiB / 1e9 + 3 * kMiB / 2 / 2e8,
              kRounding);
}

TEST(CostModel, TwoLevelsSendBetweenHostsWhatARingSends) {
  // Nothing but the bytes between hosts takes time.
  const Network network{"test", "", {0, 1e300}, {0, 1e9}, 8};
  const auto seconds = [&](Reduction reduction, bool two_levels) {
    Workload work = one_bucket(kMiB);
    work.reduction = reduction;
    return predict(work, {network, 0}, {}, {64, 8, 1, two_levels}).communication_s;
  };
  EXPECT_NEAR(seconds(Reduction::reproducible, true), 2 * 7.0 / 8 * kMiB / 1e9, kRounding);
  EXPECT_NEAR(seconds(Reduction::fast, false), 2 * 63.0 / 64 * kMiB / 1e9, kRounding);
  EXPECT_NEAR(seconds(Reduction::reproducible, false), 8 * 2 * 7.0 / 8 * kMiB / 1e9, kRounding);
}

// On GPUs what is exchanged on hosts is so beside what crosses the network: the latter takes turns,
// and of the former only the first bucket's all-to-all and the last one's all-gather are exposed.
TEST(CostModel, HostsAndTheNetworkWorkAtOnceOnGpus) {
  const Workload work{.buckets = {{kMiB, 0.5}, {kMiB, 1}}};
  const double on_host = 1e-6 + kMiB / 2 / 1e9, across = 1e-5 + kMiB / 2 / 2e8;
  const RankShare share{4, 8, 1, true};
  const auto exposed = [&](bool on_gpus) {
    return predict(work, {two_a_host(), 0, on_gpus}, {}, share).exposed_s;
  };
  EXPECT_NEAR(exposed(false), 4 * on_host + 4 * across, kRounding);
  EXPECT_NEAR(exposed(true), 2 * on_host + 4 * across, kRounding);
}

TEST(CostModel, ASmallBucketIsGatheredWhole) {
  EXPECT_NEAR(communication(one_bucket(1024), 2), 1e-6 + 1024 / 1e9, kRounding);
  EXPECT_NEAR(
      communication(one_bucket(1024), 8), 1e-6 + 2e-5 + 1024 * (1 / 1e9 + 2 * 6 / 2e8), kRounding);
  // 64 KiB from 32 ranks are more than a rank gathers: they go as a large bucket does.
  EXPECT_NEAR(communication(one_bucket(65536), 32),
              2 * (1e-6 + 30 * 1e-5) + 2 * 65536.0 / 32 * (1 / 1e9 + 2 * 30 / 2e8),
              kRounding);
}

TEST(CostModel, TheLibrarysAllReduce) {
  Workload work = one_bucket(kMiB);
  work.reduction = Reduction::fast;
  EXPECT_NEAR(communication(work, 2), 2e-6 + kMiB / 1e9, kRounding);
  EXPECT_NEAR(communication(work, 8), 2 * (1e-6 + 2e-5) + 2 * kMiB * 7 / 8 / 2e8, kRounding);
}

TEST(CostModel, WhatTravelsDuringBackwardIsHidden) {
  Workload work{.buckets = {{kMiB, 0.25}, {kMiB, 1}}, .micro_batch = 8, .backward_share = 0.5};
  const Machine machine{two_a_host(), 0};
  const double bucket_s = 2e-6 + kMiB / 1e9;
  // Backward takes 4 s: the first bucket travels within it, the second after it.
  const CostParameters slow{.per_sample_s = 1};
  EXPECT_NEAR(predict(work, machine, slow, {2, 8, 1}).exposed_s, bucket_s, kRounding);
  EXPECT_NEAR(predict(work, machine, {.per_sample_s = 1, .overlap = 0.5}, {2, 8, 1}).exposed_s,
              1.5 * bucket_s,
              kRounding);
  // No time to hide anything in.
  EXPECT_NEAR(predict(work, machine, {}, {2, 8, 1}).exposed_s, 2 * bucket_s, kRounding);
  work.overlap = Overlap::off;
  EXPECT_NEAR(predict(work, machine, slow, {2, 8, 1}).exposed_s, 2 * bucket_s, kRounding);
}

// Of a sharded optimizer: the sums of one subtree on their way out, half as many bytes of weights.
TEST(CostModel, WeightsInBf16TakeHalfOfAnAllGather) {
  Workload work = one_bucket(kMiB);
  work.buckets[0].gathered_bytes = kMiB / 2;
  const RankShare share{.ranks = 2, .samples = 8, .sharded = true};
  const StepCost cost = predict(work, {two_a_host(), 0}, {.per_sample_s = 1}, share);
  const double all = 2e-6 + 1.5 * kMiB / 2 / 1e9;
  EXPECT_NEAR(cost.communication_s, all, kRounding);
  work.buckets[0].ready = 0;  // backward hides all but the all-gather
  EXPECT_NEAR(
      predict(work, {two_a_host(), 0}, {.per_sample_s = 1}, share).exposed_s, all / 3, kRounding);
}

// The gathers follow the update: across hosts, then on the host. On GPUs the second bucket crosses
// the network while the first is gathered on the host.
TEST(CostModel, WeightsOfAShardedOptimizerAreGatheredOnTwoLevels) {
  Workload work{.buckets = {{kMiB, 0, kMiB / 2}, {kMiB, 0, kMiB / 2}}};
  const RankShare share{.ranks = 4, .samples = 8, .two_levels = true, .sharded = true};
  const double host_sum = 1e-6 + kMiB / 2 / 1e9, sum = 1e-5 + kMiB / 2 / 2e8;
  const double host_gather = 1e-6 + kMiB / 4 / 1e9, gather = 1e-5 + kMiB / 4 / 2e8;
  const auto cost = [&](bool on_gpus) {  // backward takes long enough to hide all sums
    return predict(work, {two_a_host(), 0, on_gpus}, {.per_sample_s = 1}, share);
  };
  EXPECT_NEAR(cost(false).communication_s, 2 * (host_sum + sum + gather + host_gather), kRounding);
  EXPECT_NEAR(cost(false).exposed_s, 2 * (gather + host_gather), kRounding);
  EXPECT_NEAR(cost(true).exposed_s, 2 * gather + host_gather, kRounding);
}

TEST(CostModel, RanksThatShareACoreTakeTurns) {
  const Machine two_cores{shared_memory_network(), 2};
  const CostParameters parameters{.fixed_s = 1, .per_sample_s = 1, .contention = 1.25};
  EXPECT_EQ(predict({}, two_cores, parameters, {1, 8, 1}).compute_s, 9);
  EXPECT_EQ(predict({}, two_cores, parameters, {2, 8, 1}).compute_s, 1.25 * 9);
  EXPECT_EQ(predict({}, two_cores, parameters, {4, 8, 1}).compute_s, 2 * 1.25 * 9);
}

TEST(CostModel, RanksOnGpusShareNoCore) {
  const Machine gpus{shared_memory_network(), 2, true};
  const CostParameters parameters{.fixed_s = 1, .per_sample_s = 1, .contention = 1.25};
  EXPECT_EQ(predict({}, gpus, parameters, {4, 8, 1}).compute_s, 9);
}

class CostFit : public ::testing::Test {
 protected:
  Workload work_{.buckets = {{4 * kMiB, 0.3}, {4 * kMiB, 0.7}, {kMiB, 1}},
                 .micro_batch = 32,
                 .backward_share = 2.0 / 3};
  Machine machine_{shared_memory_network(), 4};

  MeasuredStep measure(const CostParameters& truth, int ranks, double samples) const {
    const StepCost cost = predict(work_, machine_, truth, {ranks, samples, 1});
    return {{ranks, samples, 1}, cost.step_s(), cost.exposed_s};
  }

  /// The priors weigh 1e-6 of a squared error: predictions are off by far less than a thousandth.
  void expect_predicts(const CostParameters& fitted, const CostParameters& truth, int ranks) const {
    const double samples = 128.0 / ranks;
    const double expected = predict(work_, machine_, truth, {ranks, samples, 1}).step_s();
    EXPECT_NEAR(
        predict(work_, machine_, fitted, {ranks, samples, 1}).step_s(), expected, 1e-3 * expected)
        << ranks << " ranks";
  }
};

TEST_F(CostFit, WeakAndStrongStepsOfOneAndTwoRanksGiveEveryParameterOfCompute) {
  const CostParameters truth{.fixed_s = 2e-3, .per_sample_s = 1e-3, .contention = 1.3};
  const MeasuredStep steps[] = {
      measure(truth, 1, 128), measure(truth, 2, 64), measure(truth, 2, 128)};
  const CostParameters fitted = fit(work_, machine_, steps);
  EXPECT_NEAR(fitted.fixed_s, truth.fixed_s, 1e-2 * truth.fixed_s);
  EXPECT_NEAR(fitted.per_sample_s, truth.per_sample_s, 1e-3 * truth.per_sample_s);
  EXPECT_NEAR(fitted.contention, truth.contention, 1e-2);
  for (const int ranks : {1, 2, 4, 8, 16}) expect_predicts(fitted, truth, ranks);
}

TEST_F(CostFit, TwoStepsOfOneKindExplainThemselves) {
  const CostParameters truth{.fixed_s = 5e-3, .per_sample_s = 1e-3};
  const MeasuredStep strong[] = {measure(truth, 1, 128), measure(truth, 2, 64)};
  const CostParameters by_strong = fit(work_, machine_, strong);
  expect_predicts(by_strong, truth, 4);
  EXPECT_NEAR(by_strong.fixed_s, truth.fixed_s, 1e-2 * truth.fixed_s);

  const CostParameters oversubscribed{.per_sample_s = 1e-3, .contention = 1.5};
  const MeasuredStep weak[] = {measure(oversubscribed, 1, 64), measure(oversubscribed, 2, 64)};
  const CostParameters by_weak = fit(work_, machine_, weak);
  EXPECT_EQ(by_weak.fixed_s, 0);
  EXPECT_NEAR(by_weak.contention, 1.5, 1e-2);
}

TEST_F(CostFit, ASlowNetworkAndWhatItHides) {
  for (const double overlap : {0.0, 0.4, 1.0}) {
    const CostParameters truth{.per_sample_s = 1e-3, .slowness_inside = 20, .overlap = overlap};
    const MeasuredStep steps[] = {
        measure(truth, 1, 128), measure(truth, 2, 64), measure(truth, 2, 8), measure(truth, 4, 32)};
    const CostParameters fitted = fit(work_, machine_, steps);
    EXPECT_NEAR(fitted.slowness_inside, 20, 0.2) << overlap;
    EXPECT_NEAR(fitted.overlap, overlap, 0.02);
    expect_predicts(fitted, truth, 8);
  }
}

TEST_F(CostFit, RanksOfOneHostSayNothingOfTheLinkBetweenHosts) {
  machine_.network = *named_network("ethernet");
  const CostParameters truth{.per_sample_s = 1e-5, .slowness_inside = 20};
  const MeasuredStep inside[] = {
      measure(truth, 1, 128), measure(truth, 2, 64), measure(truth, 2, 8), measure(truth, 4, 32)};
  const CostParameters fitted = fit(work_, machine_, inside);
  EXPECT_NEAR(fitted.slowness_inside, 20, 0.2);
  EXPECT_EQ(fitted.slowness_between, 1);
  expect_predicts(fitted, truth, 64);
  EXPECT_FALSE(links_used(machine_.network, inside).between);
  EXPECT_FALSE(links_used(machine_.network, std::span(inside, 1)).inside);
}

TEST_F(CostFit, EachLinkHasASlownessOfItsOwn) {
  machine_.network = *named_network("ethernet");
  const CostParameters truth{.per_sample_s = 1e-5, .slowness_inside = 20, .slowness_between = 0.5};
  const MeasuredStep steps[] = {measure(truth, 1, 128),
                                measure(truth, 2, 64),
                                measure(truth, 4, 32),
                                measure(truth, 16, 8),
                                measure(truth, 32, 4)};
  const CostParameters fitted = fit(work_, machine_, steps);
  EXPECT_NEAR(fitted.slowness_inside, 20, 0.2);
  EXPECT_NEAR(fitted.slowness_between, 0.5, 5e-3);
  for (const int ranks : {2, 8, 64}) expect_predicts(fitted, truth, ranks);
  // One rank a host: nothing travels inside of one.
  machine_.network.ranks_per_host = 1;
  const MeasuredStep apart[] = {
      measure(truth, 1, 128), measure(truth, 2, 64), measure(truth, 4, 32)};
  const CostParameters by_apart = fit(work_, machine_, apart, {.slowness_inside = 3});
  EXPECT_EQ(by_apart.slowness_inside, 3);
  EXPECT_NEAR(by_apart.slowness_between, 0.5, 5e-3);
}

TEST_F(CostFit, WaitingForTheSlowestIsToldFromASlowNetwork) {
  // The wait grows with the samples of a rank, the bytes do not.
  const CostParameters truth{
      .per_sample_s = 1e-3, .slowness_inside = 4, .overlap = 0, .imbalance = 0.1};
  const MeasuredStep steps[] = {
      measure(truth, 1, 128), measure(truth, 2, 64), measure(truth, 2, 128)};
  const CostParameters fitted = fit(work_, machine_, steps, {.overlap = 0});
  EXPECT_NEAR(fitted.slowness_inside, 4, 0.04);
  EXPECT_NEAR(fitted.imbalance, 0.1, 1e-3);
  for (const int ranks : {2, 4, 8}) expect_predicts(fitted, truth, ranks);
}

TEST_F(CostFit, OnePointOfOneRank) {
  const MeasuredStep alone[] = {{{1, 64, 1}, 0.64, 0}};
  const CostParameters fitted = fit(work_, machine_, alone, {.slowness_inside = 3});
  EXPECT_NEAR(fitted.per_sample_s, 0.01, 1e-12);
  EXPECT_EQ(fitted.fixed_s, 0);
  EXPECT_EQ(fitted.slowness_inside, 3);
}

TEST_F(CostFit, NonsenseIsRefused) {
  EXPECT_THROW(fit(work_, machine_, {}), ConfigError);
  for (const MeasuredStep& step : {MeasuredStep{{1, 64, 1}, 0, 0},
                                   MeasuredStep{{2, 64, 1}, 0.1, 0.1},
                                   MeasuredStep{{2, 64, 1}, NAN, 0},
                                   MeasuredStep{{2, 0, 1}, 0.1, 0},
                                   MeasuredStep{{2, 64, 1}, 0.1, -1}})
    EXPECT_THROW(fit(work_, machine_, std::span(&step, 1)), ConfigError);
}

TEST(ShareOf, WhatTheBusiestRankComputes) {
  TrainOptions options;
  options.global_batch = 256;
  options.micro_batch = 32;
  EXPECT_EQ(share_of(options, 1, 8).samples, 256);
  EXPECT_EQ(share_of(options, 4, 8).samples, 64);
  EXPECT_EQ(share_of(options, 3, 8).samples, 96) << "8 micro-batches: one rank has 3";
  EXPECT_EQ(share_of(options, 4, 8).subtrees, 1);
  EXPECT_GT(share_of(options, 3, 8).subtrees, 1);
  EXPECT_THROW(share_of(options, 9, 8), ConfigError);
}

TEST(ShareOf, HostsOfEquallyManyRanksSumFirst) {
  TrainOptions options;
  options.global_batch = 4800;
  options.micro_batch = 1;
  EXPECT_TRUE(share_of(options, 64, 8).two_levels);
  EXPECT_EQ(share_of(options, 64, 8).host_nodes, 1);
  EXPECT_FALSE(share_of(options, 8, 8).two_levels) << "one host";
  EXPECT_FALSE(share_of(options, 12, 8).two_levels) << "hosts of 8 and of 4";
  EXPECT_TRUE(share_of(options, 24, 8).two_levels);
  EXPECT_DOUBLE_EQ(share_of(options, 24, 8).host_nodes, 11.0 / 3) << "22, 21 and 21 shards";
  options.shards = 48;
  EXPECT_EQ(share_of(options, 24, 8).host_nodes, 1) << "16 shards a host";
  options.shards = 240;
  EXPECT_DOUBLE_EQ(share_of(options, 24, 8).host_nodes, 7.0 / 3)
      << "64 + 16, 16 + 32 + 32 and 64 + 16";
  options.sharding = Sharding::optimizer;
  EXPECT_TRUE(share_of(options, 24, 8).two_levels) << "owners are those who sum across hosts";
  EXPECT_FALSE(share_of(options, 12, 8).two_levels);
  options.sharding = Sharding::none;
  options.reduction = Reduction::fast;
  EXPECT_FALSE(share_of(options, 24, 8).two_levels);
}

// Of 5 turns all but one have no weights to gather, and each a backward of its own.
TEST(ShareOf, ShardedGradientsAreExchangedInTurns) {
  TrainOptions options;
  options.global_batch = 20;
  options.micro_batch = 1;
  options.sharding = Sharding::optimizer;
  const RankShare once = share_of(options, 4, 8);
  options.sharding = Sharding::gradients;
  const RankShare turns = share_of(options, 4, 8);
  EXPECT_EQ(once.turns, 1);
  EXPECT_EQ(turns.turns, 5);
  EXPECT_EQ(turns.subtrees, 1);
  const auto cost = [](const RankShare& share) {
    return predict(one_bucket(100 * kMiB), {*named_network("ib"), 0}, {.per_sample_s = 1e-3}, share)
        .communication_s;
  };
  RankShare one_turn = turns;
  one_turn.turns = 1;
  RankShare two_turns = turns;
  two_turns.turns = 2;
  const double sums = cost(two_turns) - cost(one_turn);
  EXPECT_GT(sums, 0);
  EXPECT_LT(sums, cost(one_turn)) << "without weights";
  EXPECT_NEAR(cost(turns), cost(one_turn) + 4 * sums, 1e-12 * cost(turns));
}

TEST(ShareOf, AHundredThousandRanks) {
  TrainOptions options;
  options.global_batch = 400'000;
  options.micro_batch = 2;
  options.shards = 100'000;
  const auto begin = std::chrono::steady_clock::now();
  RankShare share = share_of(options, 100'000, 8);
  EXPECT_EQ(share.samples, 4);
  EXPECT_EQ(share.subtrees, 1);
  const auto exposed_s = [&] {
    return predict(one_bucket(100 * kMiB), {*named_network("ib"), 0}, {.per_sample_s = 1e-3}, share)
        .exposed_s;
  };
  EXPECT_TRUE(share.two_levels);
  EXPECT_GT(exposed_s(), 2 * 12'499 * 2e-6) << "a message to every host, twice";
  share.two_levels = false;
  EXPECT_GT(exposed_s(), 2 * 99'992 * 2e-6) << "a message to every rank, twice";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(NamedNetwork, Names) {
  for (const char* name : {"nvlink", "ib", "ethernet"}) {
    const auto network = named_network(name);
    ASSERT_TRUE(network) << name;
    EXPECT_EQ(network->name, name);
    EXPECT_GT(network->inside.bytes_per_s, 1e9);
    EXPECT_GE(network->ranks_per_host, 1);
  }
  EXPECT_FALSE(named_network("smoke signals"));
}

}  // namespace
}  // namespace lockstep

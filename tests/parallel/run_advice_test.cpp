// SPDX-License-Identifier: Apache-2.0
// What advice follows from where the time of a run went.
#include "parallel/monitor/run_advice.h"

#include <gtest/gtest.h>

#include "core/base/text/fixed_text.h"

namespace lockstep {
namespace {

TimeBreakdown breakdown(std::initializer_list<std::pair<TimePart, double>> parts,
                        double total = 100) {
  TimeBreakdown result{.total = total};
  for (const auto& [part, seconds] : parts) result[part] = seconds;
  result.close();
  return result;
}

/// Of two ranks with these breakdowns: 10,000 steps of 10 ms.
RunFacts facts(const TimeBreakdown& first, const TimeBreakdown& second) {
  return {.breakdowns = {{0, "a", first}, {1, "b", second}},
          .steps = 10000,
          .log_every = 50,
          .records = 200,
          .samples_per_s = 1000,
          .loader_samples_per_s = 5000,
          .free_cpus = 6,
          .host_cpus = 8,
          .buckets = 5,
          .gradient_bytes = 20 << 20};
}

const TimeBreakdown kHealthy = breakdown({{TimePart::data, 1},
                                          {TimePart::forward, 32},
                                          {TimePart::backward, 60},
                                          {TimePart::exchange, 3},
                                          {TimePart::optimizer, 3}});

std::vector<AdviceCause> causes(const RunFacts& facts) {
  std::vector<AdviceCause> result;
  for (const Advice& advice : advise_run(facts)) {
    result.push_back(advice.cause);
    EXPECT_FALSE(advice.text.empty() || advice.evidence.empty() || advice.remedy.empty());
    EXPECT_GE(advice.gain, kWorthwhile);
    EXPECT_LE(advice.gain, 1);
  }
  return result;
}
using Causes = std::vector<AdviceCause>;

TEST(RunAdvice, AHealthyRunGetsNone) { EXPECT_EQ(causes(facts(kHealthy, kHealthy)), Causes{}); }

TEST(RunAdvice, AShortRunGetsNone) {
  const TimeBreakdown waits = breakdown({{TimePart::data, 50}, {TimePart::forward, 50}});
  RunFacts run = facts(waits, waits);
  EXPECT_EQ(causes(run), Causes{AdviceCause::data_wait});
  run.steps = kMinSteps - 1;
  EXPECT_EQ(causes(run), Causes{});
  run.steps = kMinSteps;
  run.breakdowns[0].breakdown.total = kShortestRun / 2;
  EXPECT_EQ(causes(run), Causes{});
}

TEST(RunAdvice, CountsTheWorkersThatAreMissing) {
  const TimeBreakdown waits = breakdown({{TimePart::data, 50}, {TimePart::forward, 50}});
  RunFacts run = facts(waits, waits);
  run.loader_workers = 1;
  run.loader_samples_per_s = 620;  // 310 a rank and worker
  const std::vector<Advice> advice = advise_run(run);
  ASSERT_EQ(advice.size(), 1u);
  // 1000 samples/s in half of the time are 2000, 1000 of them a rank: 4 workers.
  EXPECT_EQ(advice[0].remedy, "`workers` 4");
  EXPECT_NE(advice[0].evidence.find("a worker delivers 310 samples/s, 1000 a rank are needed"),
            std::string::npos)
      << advice[0].evidence;
  EXPECT_DOUBLE_EQ(advice[0].gain, 0.5);
  run.free_cpus = 0;
  EXPECT_EQ(
      advise_run(run)[0].remedy,
      "`workers` 4, and the ranks are bound to their own cores, and 7 of the host's are idle: "
      "start them with mpirun --bind-to none");
  run.host_cpus = 1;
  EXPECT_NE(advise_run(run)[0].remedy.find("every core computes already"), std::string::npos);
  run.loader_samples_per_s = 0;  // unknown
  EXPECT_TRUE(advise_run(run).empty());
}

TEST(RunAdvice, ASlowRankIsTheCauseOfTheOthersWaiting) {
  const TimeBreakdown waits = breakdown({{TimePart::exchange, 45}, {TimePart::backward, 55}});
  const TimeBreakdown slow = breakdown({{TimePart::data, 45}, {TimePart::backward, 54}});
  RunFacts run = facts(waits, slow);
  run.slowest_rank = 1;
  run.slowest_host = "b";
  run.slowest_phase = "loading";
  run.slowest_score = 1.8;
  const std::vector<Advice> advice = advise_run(run);
  ASSERT_EQ(causes(run), Causes{AdviceCause::slow_rank});
  EXPECT_NE(advice[0].text.find("rank 1 on b"), std::string::npos);
  EXPECT_NEAR(advice[0].gain, 0.45, 1e-12);
}

TEST(RunAdvice, ASlowRanksNumbersAreTheBreakdowns) {
  // Its own work takes 98 of 100 s, that of the others 28.
  const TimeBreakdown waits = breakdown({{TimePart::exchange, 72}, {TimePart::backward, 28}});
  const TimeBreakdown slow = breakdown({{TimePart::exchange, 2}, {TimePart::backward, 98}});
  RunFacts run = facts(slow, waits);
  run.slowest_rank = 0;
  run.slowest_host = "a";
  run.slowest_phase = "forward and backward";
  run.slowest_score = 5.67;  // of other steps, and of micro-batches alone
  std::vector<Advice> advice = advise_run(run);
  ASSERT_EQ(causes(run), Causes{AdviceCause::slow_rank});
  EXPECT_NE(advice[0].text.find("3.50 times"), std::string::npos) << advice[0].text;
  EXPECT_EQ(advice[0].text.find("5.67"), std::string::npos);
  EXPECT_NEAR(advice[0].gain, 0.7, 1e-12);
  // It lacks its core.
  run.breakdowns[0].queued = 60;
  EXPECT_NE(advise_run(run)[0].evidence.find("waited 60% of the time for a core"),
            std::string::npos);
  // No rank waits for it, whatever its score: no claim.
  run.breakdowns[1].breakdown = slow;
  EXPECT_EQ(causes(run), Causes{});
}

TEST(RunAdvice, AGainIsMoreThanTheStepsOwnSpread) {
  const TimeBreakdown waits = breakdown({{TimePart::exchange, 12}, {TimePart::backward, 88}});
  RunFacts run = facts(waits, waits);
  EXPECT_EQ(causes(run), Causes{AdviceCause::communication});
  run.step_error = 0.039;
  EXPECT_EQ(causes(run), Causes{AdviceCause::communication});
  run.step_error = 0.041;  // of which three are more than 12%
  EXPECT_EQ(causes(run), Causes{});
  EXPECT_DOUBLE_EQ(min_gain(run), 3 * 0.041);
  run.step_error = 0.001;
  EXPECT_EQ(min_gain(run), kWorthwhile);
}

TEST(RunAdvice, NoNetworkOnOneHost) {
  const TimeBreakdown waits = breakdown({{TimePart::exchange, 40}, {TimePart::backward, 60}});
  RunFacts run = facts(waits, waits);
  run.machines = 2;
  run.breakdowns[0].queued = 35;
  run.breakdowns[1].queued = 90;
  run.breakdowns[1].breakdown[TimePart::exchange] = 45;  // it has time to give its core away
  EXPECT_EQ(causes(run), Causes{AdviceCause::communication});
  EXPECT_NE(advise_run(run)[0].remedy.find("faster network"), std::string::npos);
  run.machines = 1;
  ASSERT_EQ(causes(run), Causes{AdviceCause::cpu_oversubscribed}) << "others have rank 0's core";
  EXPECT_NE(advise_run(run)[0].text.find("rank 0 on a waited 35%"), std::string::npos);
  EXPECT_NEAR(advise_run(run)[0].gain, 0.35, 1e-12);
  run.breakdowns[0].queued = 15;  // less than half of what the exchange took
  ASSERT_EQ(causes(run), Causes{AdviceCause::communication});
  EXPECT_EQ(advise_run(run)[0].remedy.find("faster"), std::string::npos);
  run.breakdowns[0].queued.reset();
  ASSERT_EQ(causes(run), Causes{AdviceCause::communication});
}

TEST(RunAdvice, RanksThatShareACore) {
  const TimeBreakdown waits = breakdown({{TimePart::exchange, 30}, {TimePart::backward, 70}});
  RunFacts run = facts(waits, waits);
  run.oversubscribed = {{"a", {0, 1}, 1}};
  run.slowest_rank = 1;
  run.slowest_score = 2;
  ASSERT_EQ(causes(run), Causes{AdviceCause::cpu_oversubscribed});
  EXPECT_EQ(advise_run(run)[0].text, "ranks 0, 1 on a share 1 processor");
}

TEST(RunAdvice, Communication) {
  const TimeBreakdown waits = breakdown({{TimePart::exchange, 40}, {TimePart::backward, 60}});
  RunFacts run = facts(waits, waits);
  EXPECT_EQ(causes(run), Causes{AdviceCause::communication});
  run.buckets = 2000;  // of 10 KiB
  EXPECT_EQ(causes(run), Causes{AdviceCause::small_buckets});
  EXPECT_EQ(advise_run(run)[0].remedy, "`bucket_mb` auto");
  run.buckets = 1;
  run.gradient_bytes = 10000;
  run.steps = 1000000;  // of 0.1 ms
  EXPECT_EQ(causes(run), Causes{AdviceCause::too_small});
  run.breakdowns.pop_back();
  EXPECT_EQ(causes(run), Causes{});
}

TEST(RunAdvice, LoggingAndStorage) {
  const TimeBreakdown logs = breakdown({{TimePart::logging, 20}, {TimePart::backward, 80}});
  RunFacts run = facts(logs, kHealthy);
  run.log_every = 1;
  run.records = run.steps;
  ASSERT_EQ(causes(run), Causes{AdviceCause::logging});
  EXPECT_EQ(advise_run(run)[0].remedy, "`log_every` 50");
  run.log_every = 50;
  run.records = 200;  // 0.1 s each
  EXPECT_EQ(causes(run), Causes{AdviceCause::slow_storage});
  // 20% are 40 times as much as 0.5%: every 2,000.
  EXPECT_TRUE(advise_run(run)[0].remedy.ends_with("`log_every` 2000")) << advise_run(run)[0].remedy;
  run.log_every = 51;
  EXPECT_TRUE(advise_run(run)[0].remedy.ends_with("`log_every` 5000")) << advise_run(run)[0].remedy;
  run.log_every = 0;  // validations alone
  EXPECT_NE(advise_run(run)[0].remedy.find("`eval_every`"), std::string::npos);
}

TEST(RunAdvice, CheckpointsAndLaunches) {
  RunFacts run = facts(breakdown({{TimePart::checkpoint, 20}, {TimePart::backward, 80}}), kHealthy);
  run.checkpoints = 10;
  run.checkpoint_seconds = 600;
  EXPECT_EQ(causes(run), Causes{AdviceCause::checkpoint});
  // 20% are 40 times as much as 0.5%.
  EXPECT_NE(advise_run(run)[0].remedy.find("`checkpoint_every` 24000s"), std::string::npos);
  run.checkpoint_steps = 100;
  EXPECT_NE(advise_run(run)[0].remedy.find("`checkpoint_every` 4000"), std::string::npos);
  run = facts(kHealthy, kHealthy);
  run.on_gpu = true;
  EXPECT_EQ(causes(run), Causes{});  // the exchange of several ranks waits for the device
  run.breakdowns.pop_back();
  EXPECT_EQ(causes(run), Causes{AdviceCause::launches});
  run.breakdowns[0].breakdown[TimePart::device_wait] = 40;
  EXPECT_EQ(causes(run), Causes{});
  run.breakdowns[0].breakdown = breakdown({{TimePart::data, 80}, {TimePart::forward, 12}});
  EXPECT_EQ(causes(run), Causes{AdviceCause::data_wait});
}

TEST(RunAdvice, AGpuThatIsIdleByItsOwnClock) {
  RunFacts run = facts(kHealthy, kHealthy);
  run.on_gpu = true;
  run.device_idle = 0.04;
  EXPECT_EQ(causes(run), Causes{});
  run.device_idle = 0.41;  // kHealthy waits 1% for data
  ASSERT_EQ(causes(run), Causes{AdviceCause::launches});
  EXPECT_NEAR(advise_run(run)[0].gain, 0.40, 1e-12);
  EXPECT_NE(advise_run(run)[0].text.find(
                "was idle 41% of the time, and data, metrics and snapshots explain about 1%"),
            std::string::npos);
  run.log_every = 1;  // the host waits for each step, and then hands over the next
  EXPECT_NE(advise_run(run)[0].remedy.find("`log_every` 50"), std::string::npos);
  // What the samples explain is theirs.
  for (const double data : {15.0, 25.0, 40.0}) {
    const TimeBreakdown waits =
        breakdown({{TimePart::data, data}, {TimePart::backward, 100 - data}});
    run.breakdowns = {{0, "a", waits}, {1, "b", waits}};
    const bool unexplained = data < 41 - data;
    EXPECT_EQ(causes(run),
              unexplained ? (Causes{AdviceCause::launches, AdviceCause::data_wait})
                          : Causes{AdviceCause::data_wait});
    EXPECT_NEAR(advise_run(run)[0].gain, unexplained ? 0.41 - 0.15 : data / 100, 1e-12);
  }
}

TEST(RunAdvice, WhatHandingOverTakesIsSaidWithTheMeasuredIdleTime) {
  RunFacts run = facts(kHealthy, kHealthy);
  run.on_gpu = true;
  run.breakdowns.pop_back();
  EXPECT_EQ(advise_run(run).at(0).evidence, "it waited 0% of the time");
  run.device_idle = 0.02;  // gaps inside phases are not in it
  ASSERT_EQ(causes(run), Causes{AdviceCause::launches});
  EXPECT_EQ(advise_run(run)[0].evidence,
            "it waited 0% of the time; between phases the GPU was idle 2% of the time");
}

TEST(RunAdvice, TheMostGainComesFirst) {
  const TimeBreakdown both =
      breakdown({{TimePart::logging, 10}, {TimePart::data, 30}, {TimePart::backward, 60}});
  RunFacts run = facts(both, both);
  run.records = run.steps;
  EXPECT_EQ(causes(run), (Causes{AdviceCause::data_wait, AdviceCause::logging}));
}

RankPlacement seat(const char* machine,
                   std::initializer_list<int> cpus,
                   const std::string& host = "localhost") {
  RankPlacement result;
  set_text(result.host, host);
  set_text(result.machine, machine);
  for (const int cpu : cpus) CPU_SET(cpu, &result.cpus);
  return result;
}

TEST(Seats, FindsRanksThatShareProcessors) {
  const std::vector<RankPlacement> good{
      seat("a", {0}), seat("a", {1}), seat("b", {0}), seat("b", {1})};
  EXPECT_TRUE(oversubscribed_ranks(good).empty());
  const std::vector<RankPlacement> bound{
      seat("a", {0}), seat("a", {2, 3}), seat("a", {0}), seat("b", {0, 1})};
  const auto groups = oversubscribed_ranks(bound);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[0].cpus, 1);
  const std::vector<RankPlacement> many{seat("a", {0, 1}), seat("a", {0, 1}), seat("a", {0, 1})};
  ASSERT_EQ(oversubscribed_ranks(many).size(), 1u);
  EXPECT_EQ(oversubscribed_ranks(many)[0].cpus, 2);
  EXPECT_EQ(free_cpus(many), 0);
  EXPECT_EQ(free_cpus({seat("a", {0, 1, 2, 3}), seat("b", {0})}), 3);
  EXPECT_TRUE(oversubscribed_ranks({seat("a", {}), seat("a", {})}).empty());  // unknown
  const auto containers = oversubscribed_ranks({seat("a", {0}, "one"), seat("a", {0}, "two")});
  ASSERT_EQ(containers.size(), 1u);
  EXPECT_EQ(containers[0].host, "one");
}

}  // namespace
}  // namespace lockstep

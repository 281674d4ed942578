// SPDX-License-Identifier: Apache-2.0
// A job's hours of faults and restarts, and the files that name faults.
#include "launcher/simulate/fault_storm.h"

#include <gmock/gmock.h>
#include <utility>

#include "launcher/simulate/fault_source.h"
#include "lockstep/error.h"
#include "parallel/training/snapshot_pace.h"

namespace lockstep {
namespace {

using simulation::FaultKind;
using simulation::PlantedFault;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Steps of a second, a start of 100, a save of 10, of 64 ranks.
StormRequest small_storm(std::vector<PlantedFault> faults) {
  StormRequest request;
  request.ranks = 64;
  request.ranks_per_host = 8;
  request.seconds = 3600;
  request.faults = std::move(faults);
  request.startup_s = 40;
  request.step_s = 1;
  request.checkpoint_bytes = 10e9;
  request.storage_bytes_per_s = 1e9;
  request.copy_bytes_per_s = 1e15;
  return request;
}

/// 100 s of start, saves after 600 s of steps.
TEST(FaultStorm, WithoutFaultsOnlyTheStartIsLost) {
  const StormResult result = run_storm(small_storm({}));
  EXPECT_EQ(result.kept_steps, 3500);
  EXPECT_EQ(result.lost_steps, 0);
  EXPECT_EQ(result.saves, 5);
  EXPECT_NEAR(result.goodput, 3500.0 / 3600, 1e-9);
  EXPECT_EQ(result.restarts, 0);
}

TEST(FaultStorm, ADeathLosesWhatWasNotSaved) {
  // The save after step 600 begins at 700 s and ends at 710.
  const StormResult result =
      run_storm(small_storm({{.at = 800.5, .kind = FaultKind::rank_dies, .who = 17}}));
  ASSERT_EQ(result.faults.size(), 1u);
  const FaultOutcome& outcome = result.faults[0];
  EXPECT_EQ(outcome.named, 17);
  EXPECT_TRUE(outcome.is_right);
  EXPECT_EQ(outcome.verdict, "died");
  EXPECT_EQ(outcome.lost_steps, 100);
  EXPECT_LT(*outcome.detected_s, 1);
  // Launch, the checkpoint read by eight hosts, start-up.
  EXPECT_NEAR(*outcome.restart_s, 60 + 80 + 40, 1e-6);
  EXPECT_NEAR(*outcome.next_step_s, *outcome.detected_s + 180 + 1, 1);
  EXPECT_EQ(result.lost_steps, 100);
  EXPECT_EQ(result.restarts, 1);
  EXPECT_EQ(result.wrongly_named, 0);
}

TEST(FaultStorm, ASaveThatIsCutOffCountsForNothing) {
  const StormResult result =
      run_storm(small_storm({{.at = 705.5, .kind = FaultKind::host_dies, .who = 3}}));
  EXPECT_EQ(result.lost_saves, 1);
  EXPECT_EQ(result.lost_steps, 605);
  EXPECT_GE(result.faults[0].named, 24);
  EXPECT_LT(result.faults[0].named, 32);
  EXPECT_NEAR(*result.faults[0].detected_s, 10.5, 1);
}

/// Small storms with a snapshot of a second every 10 s.
StormRequest snapshot_storm(std::vector<PlantedFault> faults) {
  StormRequest request = small_storm(std::move(faults));
  request.has_snapshots = true;
  request.snapshot_seconds = 10;
  request.snapshot_bytes_per_s = 10e9 / 8;
  request.network_bytes_per_s = 5e9;
  return request;
}

TEST(FaultStorm, SnapshotsLoseSecondsAndNotMinutes) {
  const StormResult result =
      run_storm(snapshot_storm({{.at = 795.5, .kind = FaultKind::rank_dies, .who = 17}}));
  EXPECT_LE(result.lost_steps, 12);
  // Launch, the snapshot verified by each rank (8 s), on the replaced host after it was copied
  // (2 s) and written (1 s), start-up.
  EXPECT_NEAR(*result.faults[0].restart_s, 60 + 8 + 3 + 40, 1e-6);
  EXPECT_EQ(result.faults[0].lost_steps, result.lost_steps);
  const double pause = *result.faults[0].detected_s + *result.faults[0].restart_s;
  EXPECT_NEAR(double(result.kept_steps + result.lost_steps), 3500 - pause, 2);
  EXPECT_GT(result.snapshots, 250);
  EXPECT_EQ(run_storm(small_storm({})).snapshots, 0);
}

TEST(FaultStorm, SnapshotsByCostLeaveTheTimeToTraining) {
  StormRequest request = snapshot_storm({});
  request.snapshot_seconds = 0;
  const StormResult result = run_storm(request);
  EXPECT_NEAR(double(result.snapshots), 3500.0 / (1 / SnapshotPace::kShare), 3);
  EXPECT_EQ(result.kept_steps, 3500);
}

TEST(FaultStorm, ASnapshotThatIsCutOffLeavesTheOneBefore) {
  StormRequest request = snapshot_storm({{.at = 152, .kind = FaultKind::rank_dies, .who = 17}});
  request.snapshot_seconds = 40;
  request.snapshot_bytes_per_s = 10e9 / 8 / 30;
  EXPECT_EQ(run_storm(request).lost_steps, 51) << "the one of step 40 takes until 170 s";
  request.faults[0].at = 172;
  EXPECT_EQ(run_storm(request).lost_steps, 31);
}

/// Storage that fails is not needed for a restart from memory.
TEST(FaultStorm, RestartsFromMemoryDoNotReadTheDisk) {
  const StormResult result =
      run_storm(snapshot_storm({{.at = 800, .kind = FaultKind::rank_dies, .who = 1},
                                {.at = 801, .kind = FaultKind::storage_fails, .seconds = 300}}));
  EXPECT_EQ(result.restarts, 1);
  EXPECT_LE(result.lost_steps, 12);
}

/// With the last host that had a snapshot its steps are lost, also those that a first loss left.
TEST(FaultStorm, WithAllHostsTheirMemoryIsLost) {
  const auto of_hosts = [](int hosts) {
    StormRequest request =
        snapshot_storm({{.at = 800.5, .kind = FaultKind::host_dies, .who = 0},
                        {.at = 840, .kind = FaultKind::host_dies, .who = hosts - 1}});
    request.ranks = 8 * hosts;
    return run_storm(request);
  };
  EXPECT_EQ(of_hosts(1).lost_steps, 100);
  const StormResult both = of_hosts(2);
  EXPECT_EQ(both.lost_steps, 100);
  // From 840 s on: launch, the checkpoint read by two hosts, start-up.
  EXPECT_EQ(both.kept_steps, 600 + 3600 - (840 + 60 + 20 + 40));
  EXPECT_LE(of_hosts(3).lost_steps, 12);
}

/// A snapshot is no progress of ranks that do not live for half a minute.
TEST(FaultStorm, ShortLivesWithSnapshotsEndWithThePolicy) {
  std::vector<PlantedFault> faults;
  for (int i = 0; i < 8; ++i)
    faults.push_back({.at = 800 + 25.0 * i, .kind = FaultKind::rank_dies, .who = i});
  const auto after = [&](double startup_s) {
    StormRequest request = snapshot_storm(faults);
    request.snapshot_seconds = 1;
    request.snapshot_bytes_per_s = request.network_bytes_per_s = 1e12;
    request.launch_s = 1;
    request.backoff_s = 0;
    request.startup_s = startup_s;
    return run_storm(request);
  };
  EXPECT_THAT(after(1).refused, HasSubstr("no restart after 3"));
  for (PlantedFault& fault : faults) fault.at += 20 * (fault.at - 800) / 25;
  EXPECT_EQ(after(1).restarts, 8);
}

TEST(FaultStorm, AShortFreezeCostsItsTimeAlone) {
  const StormResult result = run_storm(
      small_storm({{.at = 800.5, .kind = FaultKind::rank_freezes, .who = 5, .seconds = 6}}));
  EXPECT_EQ(result.faults[0].named, -1);
  EXPECT_EQ(result.restarts, 0);
  EXPECT_NEAR(double(result.kept_steps), 3494, 1);
}

TEST(FaultStorm, FaultsDuringRecoveryAreMetThere) {
  const StormResult result =
      run_storm(small_storm({{.at = 800.5, .kind = FaultKind::rank_dies, .who = 1},
                             {.at = 850, .kind = FaultKind::rank_dies, .who = 2},   // launch
                             {.at = 853, .kind = FaultKind::rank_dies, .who = 3},   // a pause
                             {.at = 1005, .kind = FaultKind::rank_dies, .who = 4},  // start-up
                             {.at = 1006, .kind = FaultKind::rank_slows, .who = 4, .seconds = 5}}));
  EXPECT_EQ(result.faults[1].met_in, "launch");
  EXPECT_EQ(result.faults[2].met_in, "a pause");
  EXPECT_EQ(result.faults[3].met_in, "start-up");
  EXPECT_EQ(result.faults[3].named, 4);
  EXPECT_EQ(result.restarts, 3);
  EXPECT_EQ(result.lost_steps, 100) << "lost once";
}

TEST(FaultStorm, RestartsEndWithThePolicy) {
  std::vector<PlantedFault> faults;
  for (int i = 0; i < 5; ++i)
    faults.push_back({.at = 800 + 130.0 * i, .kind = FaultKind::rank_dies, .who = i});
  const StormResult result = run_storm(small_storm(faults));
  EXPECT_EQ(result.restarts, 3);
  EXPECT_THAT(result.refused, HasSubstr("no restart after 3"));
  EXPECT_EQ(result.kept_steps, 600);
}

TEST(FaultStorm, WhatHitsEveryRankIsNotForEver) {
  const auto of_host = [](std::vector<PlantedFault> faults) {
    StormRequest request = small_storm(std::move(faults));
    request.ranks = 8;
    return run_storm(request);
  };
  const StormResult freezes =
      of_host({{.at = 800.5, .kind = FaultKind::host_freezes, .seconds = 5}});
  EXPECT_NEAR(double(freezes.kept_steps), 3495, 1);
  EXPECT_EQ(freezes.restarts, 0);
  const StormResult dies = of_host({{.at = 800.5, .kind = FaultKind::host_dies}});
  EXPECT_EQ(dies.restarts, 1);
  EXPECT_THAT(dies.faults[0].note, HasSubstr("the scheduler starts the job again"));
  EXPECT_NEAR(*dies.faults[0].restart_s, 60 + 10 + 40, 1e-6);
  const StormResult cut = of_host({{.at = 800.5, .kind = FaultKind::host_is_cut, .seconds = 50}});
  EXPECT_EQ(cut.kept_steps, 3500);
  EXPECT_THAT(cut.faults[0].note, HasSubstr("no other host"));
}

/// A launcher that was started anew knows of no restarts before.
TEST(FaultStorm, TheSchedulerStartsAnotherLauncher) {
  std::vector<PlantedFault> faults;
  for (int i = 0; i < 5; ++i)
    faults.push_back({.at = 800 + 200.0 * i, .kind = FaultKind::host_dies});
  const StormResult result = run_storm(small_storm(faults));
  EXPECT_EQ(result.refused, "");
  EXPECT_EQ(result.restarts, 5);
}

TEST(FaultStorm, OnlyWhoIsNamedHasBeenDetected) {
  const StormResult result =
      run_storm(small_storm({{.at = 800, .kind = FaultKind::host_freezes, .who = 3},
                             {.at = 804, .kind = FaultKind::rank_dies, .who = 1},
                             {.at = 804.35, .kind = FaultKind::rank_hangs, .who = 9}}));
  EXPECT_EQ(result.faults[0].named, -1);
  EXPECT_FALSE(result.faults[0].detected_s);
  EXPECT_EQ(result.faults[1].named, 1);
  EXPECT_LT(*result.faults[1].detected_s, 1);
  EXPECT_FALSE(result.faults[2].detected_s);
  EXPECT_EQ(result.detected, 1u);
  EXPECT_EQ(result.wrongly_named, 0);
}

/// Only the host that was named is replaced.
TEST(FaultStorm, WhatIsWrongWithAnotherHostLasts) {
  const auto restart_s = [](int host) {
    const StormResult result = run_storm(
        small_storm({{.at = 800, .kind = FaultKind::host_freezes, .who = 3, .seconds = 110},
                     {.at = 804, .kind = FaultKind::rank_dies, .who = host * 8}}));
    EXPECT_EQ(result.restarts, 1);
    EXPECT_EQ(result.faults[1].named, host * 8);
    EXPECT_EQ(result.faults[0].note,
              host == 3 ? "while another was being found"
                        : "while another was being found; others wait for it");
    return std::pair(*result.faults[1].restart_s, *result.faults[1].detected_s + 804);
  };
  EXPECT_NEAR(restart_s(2).first, 910 - restart_s(2).second + 80 + 40, 1.5);
  // The rank that died is of the frozen host, which has been replaced.
  EXPECT_NEAR(restart_s(3).first, 60 + 80 + 40, 1e-6);
}

TEST(FaultStorm, AReplacedRankIsNotSlow) {
  const auto steps = [](int who) {
    return run_storm(small_storm({{.at = 800, .kind = FaultKind::rank_slows, .who = 9, .factor = 2},
                                  {.at = 1000.5, .kind = FaultKind::rank_dies, .who = who}}))
        .kept_steps;
  };
  // From 1181 s on, of 600 steps, with 2419 s left.
  EXPECT_NEAR(double(steps(9)), 600 + 2419, 2);
  EXPECT_NEAR(double(steps(17)), 600 + 1209, 2);
}

TEST(FaultStorm, UnsavedStepsOfAJobThatHangsAreNotKept) {
  StormRequest request = small_storm({{.at = 800.5, .kind = FaultKind::rank_hangs, .who = 5}});
  request.limits = {0, 0, 0, 0, 0};
  const StormResult result = run_storm(request);
  EXPECT_EQ(result.faults[0].note, "no rank notices");
  EXPECT_EQ(result.kept_steps, 600);
  EXPECT_EQ(result.lost_steps, 100);
}

TEST(FaultStorm, ANoteDoesNotGrow) {
  StormRequest request = small_storm({{.at = 0, .kind = FaultKind::storage_fails}});
  request.every_seconds = 20;
  const StormResult result = run_storm(request);
  EXPECT_GT(result.failed_saves, 100);
  EXPECT_LT(result.faults[0].note.size(), 200u);
  EXPECT_THAT(result.faults[0].note, HasSubstr("more"));
  request.faults = {{.at = 0, .kind = FaultKind::storage_stalls}};
  EXPECT_THAT(run_storm(request).faults[0].note,
              AllOf(HasSubstr("never ends"), ::testing::Not(HasSubstr("inf"))));
}

TEST(FaultStorm, StorageThatStallsAndFails) {
  StormRequest request =
      small_storm({{.at = 702, .kind = FaultKind::storage_stalls, .seconds = 50},
                   {.at = 1302, .kind = FaultKind::storage_fails, .seconds = 50}});
  const StormResult result = run_storm(request);
  EXPECT_THAT(result.faults[0].note, HasSubstr("the save of step 600 takes 50 s more"));
  EXPECT_THAT(result.faults[1].note, HasSubstr("fails"));
  EXPECT_EQ(result.failed_saves, 1);
  EXPECT_EQ(result.kept_steps, 3500);
  // The checkpoint cannot be read until it has passed.
  request.faults = {{.at = 800, .kind = FaultKind::rank_dies, .who = 1},
                    {.at = 860, .kind = FaultKind::storage_fails, .seconds = 100}};
  const StormResult restarts = run_storm(request);
  EXPECT_EQ(restarts.restarts, 3);
  EXPECT_THAT(restarts.faults[1].note, HasSubstr("reading the checkpoint fails"));
}

TEST(FaultStorm, ASlowRankIsNamedAndSlowsAll) {
  const StormResult result = run_storm(small_storm(
      {{.at = 1000, .kind = FaultKind::rank_slows, .who = 9, .seconds = 600, .factor = 2}}));
  EXPECT_EQ(result.faults[0].named, 9);
  EXPECT_EQ(result.faults[0].verdict, "slow");
  EXPECT_NEAR(double(result.kept_steps), 3200, 2);
}

TEST(FaultSource, DrawnFaultsAreThoseOfTheMean) {
  const std::vector<PlantedFault> faults = draw_faults(100, 1e6, 64, 8, 1);
  EXPECT_NEAR(double(faults.size()), 1e4, 400) << "four standard deviations";
  int deaths = 0;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    EXPECT_GE(faults[i].at, faults[i > 0 ? i - 1 : 0].at);
    deaths += faults[i].kind == FaultKind::rank_dies ? 1 : 0;
    EXPECT_LT(faults[i].who, 64);
  }
  EXPECT_NEAR(deaths, 0.7 * double(faults.size()), 200);
  EXPECT_NE(draw_faults(100, 1e4, 64, 8, 2)[0].at, draw_faults(100, 1e4, 64, 8, 3)[0].at);
}

TEST(FaultSource, DrawsNoMoreThanAMillion) {
  EXPECT_THROW(draw_faults(1, 1.1e6, 64, 8, 1), ConfigError);
}

TEST(FaultSource, ReadsAFile) {
  const std::vector<PlantedFault> faults = parse_faults(
      "# a storm\n"
      "0s     rank-dies      17\n"
      "\n"
      "1.5h   host-freezes   3   20s   # comes back\n"
      "2h     rank-slows     5   10m  x1.5\r\n"
      "2h     storage-stalls 90s\n"
      "3h     rank-slows     5   x3\n",
      "storm.txt",
      64,
      8,
      86400);
  ASSERT_EQ(faults.size(), 5u);
  EXPECT_EQ(faults[0].at, 0);
  EXPECT_EQ(faults[0].who, 17);
  EXPECT_EQ(faults[1].at, 5400);
  EXPECT_EQ(faults[1].seconds, 20);
  EXPECT_EQ(faults[2].factor, 1.5);
  EXPECT_EQ(faults[2].seconds, 600);
  EXPECT_EQ(faults[3].kind, FaultKind::storage_stalls);
  EXPECT_EQ(faults[3].seconds, 90);
  EXPECT_EQ(faults[4].seconds, PlantedFault::kForEver);
}

TEST(FaultSource, RefusesWhatIsNotAFault) {
  const auto message = [](const std::string& text) {
    try {
      parse_faults(text, "storm.txt", 64, 8, 86400);
    } catch (const ConfigError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message("1h rank-dies 64\n"), AllOf(HasSubstr("line 1"), HasSubstr("0 to 63")));
  EXPECT_THAT(message("\n1h host-dies 8\n"), AllOf(HasSubstr("line 2"), HasSubstr("0 to 7")));
  EXPECT_THAT(message("1h rank-dies\n"), HasSubstr("the rank that is hit"));
  EXPECT_THAT(message("1h rank-dies -1\n"), HasSubstr("no rank '-1'"));
  EXPECT_THAT(message("1h rank-dyes 1\n"), AllOf(HasSubstr("rank-dyes"), HasSubstr("rank-dies")));
  EXPECT_THAT(message("2h rank-dies 1\n1h rank-dies 1\n"), HasSubstr("line 2"));
  EXPECT_THAT(message("-1h rank-dies 1\n"), HasSubstr("'-1h'"));
  EXPECT_THAT(message("1 rank-dies 1\n"), HasSubstr("'1'"));
  EXPECT_THAT(message("1h rank-dies 1 5s\n"), HasSubstr("has no duration"));
  EXPECT_THAT(message("1h rank-freezes 1 0s\n"), HasSubstr("duration of 0s"));
  EXPECT_THAT(message("1h rank-slows 1 5s\n"), HasSubstr("how many times"));
  EXPECT_THAT(message("1h rank-slows 1 5s x0.5\n"), HasSubstr("x0.5"));
  EXPECT_THAT(message("1h rank-hangs 1 5s now\n"), HasSubstr("'now'"));
  EXPECT_THAT(message("1h rank-dies 1\n24h rank-dies 1\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("after the storm"), HasSubstr("--storm-hours")));
  EXPECT_THAT(message("infs rank-dies 1\n"), HasSubstr("'infs'"));
  EXPECT_THAT(message("1h rank-freezes 1 infs\n"), HasSubstr("'infs'"));
  EXPECT_THAT(message("1h rank-slows 1 xinf\n"), HasSubstr("'xinf'"));
  EXPECT_THAT(message("1h\n"), HasSubstr("what happens"));
  EXPECT_THAT(message("# nothing\n\n"), HasSubstr("no fault"));
  EXPECT_THAT(message(""), HasSubstr("no fault"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Whom the watchdogs of all ranks accuse, and after what time.
#include "parallel/simulation/fault_detection.h"

#include <chrono>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/simulation/simulated_watch.h"

namespace lockstep::simulation {
namespace {

constexpr double kLimit = 10;  // of WatchLimits

Detection of_one(const PlantedFault& fault, int ranks = 1024, int each = 8) {
  return detect({.ranks = ranks, .ranks_per_host = each, .limits = {}, .faults = {&fault, 1}});
}

/// To rank 0 and down again, and a beat that is late.
double latest(const PlantedFault& fault, double limit) {
  (void)fault;
  return limit + 6 * SimulatedWatch::kSlowBeat;
}

TEST(FaultDetection, WhoIsHitIsNamed) {
  struct Case {
    FaultKind kind;
    double limit;
  };
  for (const Case& one : {Case{FaultKind::rank_dies, FailureDetector::kFailureReportSeconds},
                          Case{FaultKind::host_dies, kLimit},
                          Case{FaultKind::rank_freezes, kLimit},
                          Case{FaultKind::host_freezes, kLimit},
                          Case{FaultKind::rank_hangs, kLimit},
                          Case{FaultKind::host_is_cut, kLimit}})
    for (const int who : {0, 1, 5, 40, 127}) {
      const PlantedFault fault{.at = 100.3, .kind = one.kind, .who = who};
      SCOPED_TRACE(to_string(fault));
      const Detection found = of_one(fault);
      ASSERT_TRUE(found.verdict);
      EXPECT_EQ(found.named_fault, 0u) << "rank " << found.verdict->rank;
      EXPECT_EQ(found.others_wrong, 0);
      EXPECT_GE(found.detected_at - fault.at, one.limit - SimulatedWatch::kSlowBeat * 2);
      EXPECT_LE(found.detected_at - fault.at, latest(fault, one.limit));
      EXPECT_LE(found.over_at - found.detected_at, 2);
      EXPECT_EQ(found.exit_code, one.kind == FaultKind::rank_dies ? 137 : 5);
    }
}

TEST(FaultDetection, WhatPassesInTimeEndsNothing) {
  for (const FaultKind kind :
       {FaultKind::rank_freezes, FaultKind::host_freezes, FaultKind::host_is_cut})
    for (const int who : {0, 7}) {
      const PlantedFault fault{.at = 100, .kind = kind, .who = who, .seconds = kLimit - 1};
      SCOPED_TRACE(to_string(fault));
      const Detection found = of_one(fault, 100, 8);
      EXPECT_FALSE(found.verdict);
      EXPECT_NEAR(found.over_at, fault.end(), 2 * SimulatedWatch::kTick);
      EXPECT_EQ(found.met, 1u);
    }
}

TEST(FaultDetection, AFaultWhileAnotherIsBeingFound) {
  const PlantedFault faults[] = {{.at = 10, .kind = FaultKind::rank_freezes, .who = 17},
                                 {.at = 14, .kind = FaultKind::rank_dies, .who = 90},
                                 {.at = 900, .kind = FaultKind::rank_dies, .who = 3}};
  const Detection found =
      detect({.ranks = 100, .ranks_per_host = 4, .limits = {}, .faults = faults});
  ASSERT_TRUE(found.verdict);
  EXPECT_EQ(found.met, 2u);
  EXPECT_EQ(found.verdict->rank, 90) << "a death is seen at once, a silence after its limit";
  EXPECT_EQ(found.named_fault, 1u);
  EXPECT_LT(found.over_at, 16);
}

TEST(FaultDetection, NobodyIsNamedWithoutLimits) {
  const PlantedFault fault{.at = 1, .kind = FaultKind::rank_hangs, .who = 2};
  const Detection found =
      detect({.ranks = 4, .ranks_per_host = 4, .limits = {0, 0, 0, 0, 0}, .faults = {&fault, 1}});
  EXPECT_FALSE(found.verdict);
  EXPECT_EQ(found.over_at, PlantedFault::kForEver);
}

TEST(FaultDetection, WhatHitsEveryRankPasses) {
  const PlantedFault fault{.at = 100, .kind = FaultKind::host_freezes, .seconds = 5};
  const Detection found = of_one(fault, 8, 8);
  EXPECT_FALSE(found.verdict);
  EXPECT_NEAR(found.over_at, 105, 2 * SimulatedWatch::kTick);
}

TEST(FaultDetection, TheLauncherSeesADeathThatNoRankCan) {
  const PlantedFault alone{.at = 100, .kind = FaultKind::rank_dies};
  const Detection found = of_one(alone, 1, 1);
  ASSERT_TRUE(found.verdict);
  EXPECT_EQ(found.verdict->kind, Verdict::Kind::died);
  EXPECT_EQ(found.exit_code, 137);
  EXPECT_NEAR(found.over_at, 100, 2 * SimulatedWatch::kTick);
  EXPECT_FALSE(found.launcher_died);
}

TEST(FaultDetection, TheLauncherDiesWithItsHost) {
  const PlantedFault fault{.at = 100, .kind = FaultKind::host_dies};
  const Detection only = of_one(fault, 8, 8);
  EXPECT_TRUE(only.launcher_died);
  EXPECT_FALSE(only.verdict);
  EXPECT_EQ(only.over_at, 100);
  const Detection first = of_one(fault, 16, 8);
  EXPECT_TRUE(first.launcher_died);
  ASSERT_TRUE(first.verdict) << "the other host lives";
}

TEST(FaultDetection, ALongFaultEndsWithoutLimits) {
  for (const double seconds : {600.0, 1e6}) {
    const PlantedFault fault{
        .at = 10, .kind = FaultKind::rank_freezes, .who = 2, .seconds = seconds};
    const Detection found =
        detect({.ranks = 4, .ranks_per_host = 4, .limits = {0, 0, 0, 0, 0}, .faults = {&fault, 1}});
    EXPECT_FALSE(found.verdict);
    EXPECT_NEAR(found.over_at, fault.end(), 2 * SimulatedWatch::kTick);
  }
}

/// The shorter of two does not heal what the longer one holds.
TEST(FaultDetection, FaultsOfARankOverlap) {
  struct Case {
    FaultKind longer, shorter;
    int who_longer, who_shorter;
  };
  for (const Case& one : {Case{FaultKind::rank_freezes, FaultKind::rank_freezes, 17, 17},
                          Case{FaultKind::host_freezes, FaultKind::rank_freezes, 2, 17},
                          Case{FaultKind::host_freezes, FaultKind::host_is_cut, 2, 2},
                          Case{FaultKind::host_is_cut, FaultKind::host_is_cut, 2, 2}}) {
    const PlantedFault faults[] = {
        {.at = 10, .kind = one.longer, .who = one.who_longer},
        {.at = 12, .kind = one.shorter, .who = one.who_shorter, .seconds = 3}};
    SCOPED_TRACE(to_string(faults[0]) + ", " + to_string(faults[1]));
    const Detection found =
        detect({.ranks = 64, .ranks_per_host = 8, .limits = {}, .faults = faults});
    ASSERT_TRUE(found.verdict);
    EXPECT_EQ(found.named_fault, 0u);
    EXPECT_LE(found.detected_at - 10, latest(faults[0], kLimit));
  }
}

TEST(FaultDetection, ARankThatIsNotSlowEnoughIsNotWatchedForEver) {
  const int slow[] = {3};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(detect_slow(1000, slow, 1.1, 0.05, 4, 0.02, 1e8, 1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "of 10^8";
}

TEST(FaultDetection, ASlowRankIsNamed) {
  for (const int ranks : {8, 1000, 4096}) {
    const int slow[] = {ranks / 3};
    const auto found = detect_slow(ranks, slow, 2, 0.05, 4, 0.02, 1800, 1);
    ASSERT_TRUE(found) << ranks;
    EXPECT_EQ(found->rank, slow[0]);
    EXPECT_LT(found->seconds, 120);
    EXPECT_FALSE(detect_slow(ranks, slow, 1.1, 0.05, 4, 0.02, 600, 1));
  }
}

}  // namespace
}  // namespace lockstep::simulation

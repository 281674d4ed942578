// SPDX-License-Identifier: Apache-2.0
// Which ranks are called slow, from times that are made up.
#include "parallel/monitor/straggler_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What a rank takes in a step at `second` of the run.
using Times = std::function<RankWork(int rank, double second)>;

RankWork one(double loading, double compute) { return {loading, compute, 1, 1}; }

/// Runs for `seconds` and returns when which rank was named. The ranks wait for the slowest.
struct Named {
  double second = 0;
  RankScore score;
};
std::vector<Named> run(StragglerScores& scores, int ranks, double seconds, const Times& times) {
  std::vector<Named> named;
  std::vector<RankWork> work(std::size_t(ranks), RankWork{});
  for (double now = 0; now < seconds;) {
    double longest = 1e-3;
    for (int rank = 0; rank < ranks; ++rank) {
      work[std::size_t(rank)] = times(rank, now);
      longest =
          std::max(longest, work[std::size_t(rank)].loading + work[std::size_t(rank)].compute);
    }
    now += longest;
    scores.add(work, 1);
    for (const RankScore& score : scores.news()) named.push_back({now, score});
  }
  return named;
}

std::vector<Named> run(int ranks, double seconds, const Times& times) {
  StragglerScores scores(std::vector<bool>(std::size_t(ranks), false));
  return run(scores, ranks, seconds, times);
}

std::vector<int> ranks_of(const std::vector<Named>& named) {
  std::vector<int> ranks;
  for (const Named& each : named) ranks.push_back(each.score.rank);
  return ranks;
}

TEST(StragglerScores, NamesTheRankThatLoadsSlowlyOnceAndAfterFiveSeconds) {
  const auto named =
      run(4, 30, [](int rank, double) { return one(rank == 3 ? 0.042 : 0.012, 0.03); });
  ASSERT_THAT(ranks_of(named), ElementsAre(3));
  // A window that warms up, five seconds, and what the last window may take longer.
  EXPECT_GE(named[0].second, 5.0);
  EXPECT_LE(named[0].second, 7.0);
  EXPECT_TRUE(named[0].score.in_loading);
  EXPECT_NEAR(named[0].score.score, 0.072 / 0.042, 1e-6);
  EXPECT_NEAR(named[0].score.seconds, 0.042, 1e-6);
  EXPECT_NEAR(named[0].score.median_seconds, 0.012, 1e-6);
}

TEST(StragglerScores, NamesTheRankThatComputesSlowly) {
  StragglerScores scores(std::vector<bool>(8, false));
  const auto named =
      run(scores, 8, 20, [](int rank, double) { return one(0.001, rank == 5 ? 0.2 : 0.1); });
  ASSERT_THAT(ranks_of(named), ElementsAre(5));
  EXPECT_FALSE(named[0].score.in_loading);
  ASSERT_TRUE(scores.slowest().has_value());
  EXPECT_EQ(scores.slowest()->rank, 5);
  EXPECT_NEAR(scores.slowest()->score, 0.201 / 0.101, 1e-6);
}

TEST(StragglerScores, OfTwoRanksEachIsMeasuredByTheOther) {
  const auto named = run(2, 20, [](int rank, double) { return one(0, rank == 0 ? 0.15 : 0.1); });
  ASSERT_THAT(ranks_of(named), ElementsAre(0));
  EXPECT_NEAR(named[0].score.score, 1.5, 1e-6);
}

TEST(StragglerScores, IsSilentWhereRanksAreAlike) {
  // A fifth more or less, changing all the time.
  EXPECT_THAT(run(4,
                  120,
                  [](int rank, double second) {
                    return one(0.01, 0.1 + 0.02 * std::sin(37 * second + rank));
                  }),
              IsEmpty());
}

TEST(StragglerScores, ANegligibleWaitIsNoReason) {
  EXPECT_THAT(run(4, 60, [](int rank, double) { return one(rank == 1 ? 5e-3 : 5e-6, 0.1); }),
              IsEmpty());
}

TEST(StragglerScores, HiccupsAreForgotten) {
  // Once in 15 seconds a step of rank 2 takes ten seconds.
  double last = 0;
  EXPECT_THAT(run(4,
                  120,
                  [&](int rank, double second) {
                    if (rank != 2 || second - last < 15) return one(0, 0.1);
                    last = second + 10;
                    return one(10, 0.1);
                  }),
              IsEmpty());
}

TEST(StragglerScores, IsNamedAgainOnlyAfterItRecovered) {
  const auto named = run(4, 90, [](int rank, double second) {
    const bool slow = second < 20 || (second > 40 && second < 60);
    // Between, and at the end, it is still a bit slower than recovered ranks are, or is not.
    return one(0, rank != 1 ? 0.1 : slow ? 0.2 : second < 70 ? 0.1 : 0.12);
  });
  ASSERT_THAT(ranks_of(named), ElementsAre(1, 1));
  EXPECT_GT(named[1].second, 45.0);
  // Without a recovery in between there is one record.
  EXPECT_THAT(ranks_of(run(4,
                           90,
                           [](int rank, double second) {
                             const bool slow = int(second / 15) % 2 == 0;
                             return one(0, rank != 1 ? 0.1 : slow ? 0.2 : 0.12);
                           })),
              ElementsAre(1));
}

TEST(StragglerScores, TwentyStepsAreNeededWhereStepsAreLong) {
  const auto named = run(4, 100, [](int rank, double) { return one(0, rank == 0 ? 2.0 : 1.0); });
  ASSERT_THAT(ranks_of(named), ElementsAre(0));
  EXPECT_GE(named[0].second, 20 * 2.0);
  EXPECT_LE(named[0].second, 22 * 2.0);
}

TEST(StragglerScores, RanksWithoutWholeMicroBatchesTakeNoPart) {
  StragglerScores scores(std::vector<bool>(3, false));
  const auto named = run(scores, 3, 30, [](int rank, double) {
    return rank == 2 ? RankWork{} : one(0, rank == 0 ? 0.1 : 0.11);
  });
  EXPECT_THAT(named, IsEmpty());
  EXPECT_EQ(scores.slowest()->rank, 1);
  StragglerScores alone(std::vector<bool>(2, false));
  run(alone, 2, 10, [](int rank, double) { return rank == 1 ? RankWork{} : one(0, 0.1); });
  EXPECT_FALSE(alone.slowest().has_value());
}

TEST(StragglerScores, TwoMicroBatchesTakeTwiceAsLong) {
  EXPECT_THAT(run(2,
                  30,
                  [](int rank, double) {
                    return rank == 0 ? RankWork{0.02, 0.2, 2, 2} : RankWork{0.01, 0.1, 1, 1};
                  }),
              IsEmpty());
}

// Of eight micro-batches the host computes one itself.
TEST(StragglerScores, WhatGraphsDoDoesNotDiluteComputing) {
  const auto some = [](double loading, double compute) {
    return RankWork{8 * loading, compute, 8, 1};
  };
  const auto named =
      run(4, 60, [&](int rank, double) { return some(0.001, rank == 2 ? 0.2 : 0.1); });
  ASSERT_THAT(ranks_of(named), ElementsAre(2));
  EXPECT_NEAR(named[0].score.seconds, 0.2, 1e-6);
  EXPECT_NEAR(named[0].score.score, 0.201 / 0.101, 1e-6);
}

// One rank has no graphs, so that only of that one computing is known.
TEST(StragglerScores, LoadingAloneCountsWhereGraphsComputeOnSomeRanks) {
  const auto times = [](double slow_loading) {
    return [slow_loading](int rank, double) {
      return rank == 2 ? one(slow_loading, 0.1) : RankWork{0.01, 0, 1, 0};
    };
  };
  EXPECT_THAT(run(4, 60, times(0.01)), IsEmpty());
  EXPECT_THAT(ranks_of(run(4, 60, times(0.02))), ElementsAre(2));
}

TEST(StragglerScores, RanksThatShareProcessorsAreAccusedOfComputingLater) {
  // One rank shares its processor with a second one, the others have theirs to themselves.
  const auto run_crowded = [](const Times& times) {
    StragglerScores scores(std::vector<bool>(4, true));
    return ranks_of(run(scores, 4, 30, times));
  };
  EXPECT_THAT(run_crowded([](int rank, double) { return one(0.01, rank == 2 ? 0.2 : 0.1); }),
              IsEmpty());
  EXPECT_THAT(run_crowded([](int rank, double) { return one(0.01, rank == 2 ? 0.4 : 0.1); }),
              ElementsAre(2));
  // Of loading as ever.
  EXPECT_THAT(run_crowded([](int rank, double) { return one(rank == 1 ? 0.1 : 0.01, 0.1); }),
              ElementsAre(1));
}

}  // namespace
}  // namespace lockstep

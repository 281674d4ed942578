// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/failure_detector.h"

#include <gtest/gtest.h>
#include <string>

#include "parallel/watchdog/failure_report.h"

namespace lockstep {
namespace {

constexpr double kBeat = kBeatSeconds;

/// Ranks that beat four times a second; time is what the test says.
class Ranks {
 public:
  Ranks(int ranks, const WatchLimits& limits)
      : judge(ranks, FailureDetector::Watches::everyone, 0), notes(std::size_t(ranks)) {
    judge.set_limits(limits);
    for (PositionNote& note : notes) {
      note.stage = RunStage::training;
      note.step = 5;
    }
  }

  PositionNote& operator[](int rank) { return notes[std::size_t(rank)]; }

  /// Lets `seconds` pass; `works(rank)`: it ticks, `beats(rank)`: it is heard of.
  template <typename Works, typename Beats>
  std::optional<Verdict> pass(double seconds, Works works, Beats beats) {
    for (const double end = time + seconds; time < end;) {
      time += kBeat;
      judge.wake(time);
      for (int r = 0; r < int(notes.size()); ++r) {
        if (works(r)) ++notes[std::size_t(r)].ticks;
        if (beats(r)) judge.beat(r, notes[std::size_t(r)], false, time);
      }
      if (const auto verdict = judge.judge(time)) return verdict;
    }
    return std::nullopt;
  }
  std::optional<Verdict> work(double seconds) { return pass(seconds, all, all); }
  std::optional<Verdict> stand_still(double seconds) { return pass(seconds, none, all); }

  static bool all(int) { return true; }
  static bool none(int) { return false; }

  FailureDetector judge;
  std::vector<PositionNote> notes;
  double time = 0;
};

const WatchLimits kShort{.training_s = 3, .start_s = 20, .evaluation_s = 6, .saving_s = 10};

TEST(FailureDetector, RanksThatWorkAreLeftAlone) {
  Ranks ranks(4, kShort);
  EXPECT_FALSE(ranks.work(1000));
}

TEST(FailureDetector, OneRankThatWorksIsEnough) {
  Ranks ranks(4, kShort);
  for (int r : {0, 1, 3}) ranks[r].collective.name = "all-gather";
  EXPECT_FALSE(ranks.pass(
      100, [](int r) { return r == 2; }, Ranks::all))
      << "a slow rank is not stuck";
}

// Rank 1 is the parent of rank 3, which is known through it.
TEST(FailureDetector, WhoIsBelowARankThatADebuggerHoldsIsNotAccused) {
  const std::vector<int> hosts{0, 1, 2, 3, 4};
  const watch::HeartbeatTree tree(hosts, 2);
  ASSERT_EQ(tree.parent(3), 1);
  Ranks ranks(5, kShort);
  ranks.judge = FailureDetector(tree, 0, 0);
  ranks.judge.set_limits(kShort);
  ASSERT_FALSE(ranks.work(2));
  const auto others = [](int r) { return r == 0 || r == 2; };
  auto verdict = ranks.pass(10, others, others);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  ranks.judge.hold(1, ranks.time);
  verdict = ranks.judge.judge(ranks.time);
  EXPECT_FALSE(verdict) << "of rank " << verdict->rank;
  // Once rank 1 is heard of again, so is rank 3, or it is accused.
  verdict = ranks.pass(10, Ranks::all, [](int r) { return r != 3; });
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 3);
}

TEST(FailureDetector, AClosedConnectionIsADeathOnceLastWordsCouldHaveCome) {
  Ranks ranks(3, kShort);
  ranks.work(1);
  ranks.judge.closed(2, ranks.time);
  EXPECT_FALSE(ranks.judge.judge(ranks.time + 0.2));
  const auto verdict = ranks.judge.judge(ranks.time + 0.31);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Verdict::Kind::died);
  EXPECT_EQ(verdict->rank, 2);
}

TEST(FailureDetector, OfSeveralDeathsTheFirstIsToBlame) {
  Ranks ranks(4, kShort);
  ranks.judge.closed(3, 1.0);
  ranks.judge.closed(1, 1.1);
  EXPECT_EQ(ranks.judge.judge(2)->rank, 3);
}

TEST(FailureDetector, WhoSaidGoodbyeIsNotDead) {
  Ranks ranks(3, kShort);
  ranks.judge.goodbye(1, false, 1);
  ranks.judge.closed(1, 1);
  EXPECT_FALSE(ranks.pass(50, Ranks::all, [](int r) { return r != 1; }));
}

TEST(FailureDetector, AGoodbyeWithAnErrorEndsTheRunUnlessAnnounced) {
  Ranks ranks(3, {});
  ranks.judge.goodbye(1, true, 1);
  ranks.judge.closed(1, 1);
  EXPECT_FALSE(ranks.judge.judge(3.9));
  const auto verdict = ranks.judge.judge(4.1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Verdict::Kind::failed);
  EXPECT_EQ(verdict->rank, 1);
}

TEST(FailureDetector, ASilentRankIsFrozenInEveryStage) {
  for (const RunStage stage :
       {RunStage::start, RunStage::training, RunStage::evaluation, RunStage::saving}) {
    Ranks ranks(3, kShort);
    for (int r = 0; r < 3; ++r) ranks[r].stage = stage;
    ranks.work(1);
    const auto verdict = ranks.pass(10, Ranks::all, [](int r) { return r != 1; });
    ASSERT_TRUE(verdict) << name_of(stage);
    EXPECT_EQ(verdict->kind, Verdict::Kind::frozen);
    EXPECT_EQ(verdict->rank, 1);
    EXPECT_GT(verdict->seconds, 3);
    EXPECT_LT(verdict->seconds, 3 + 2 * kBeat);
  }
}

TEST(FailureDetector, AShortFreezeIsForgiven) {
  Ranks ranks(2, kShort);
  ranks.work(1);
  EXPECT_FALSE(ranks.pass(2.5, Ranks::none, [](int r) { return r == 0; }));
  EXPECT_FALSE(ranks.work(100));
}

TEST(FailureDetector, WhoSleptItselfAccusesNobody) {
  Ranks ranks(3, kShort);
  ranks.work(1);
  ranks.time += 500;  // SIGSTOP to the judge
  EXPECT_FALSE(ranks.work(100));
  ranks.time += 500;
  EXPECT_FALSE(ranks.stand_still(2.5)) << "nor for standing still while it slept";
  EXPECT_TRUE(ranks.stand_still(2)) << "but it does not forget what it sees";
}

TEST(FailureDetector, StuckIsTheRankThatEntersNoCollective) {
  Ranks ranks(4, kShort);
  ranks.work(1);
  for (int r : {0, 1, 3}) ranks[r].collective.name = "all-gather";
  const auto verdict = ranks.stand_still(10);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Verdict::Kind::stuck);
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_LT(verdict->seconds, 3 + 2 * kBeat);
}

TEST(FailureDetector, StuckIsTheRankWithTheFewestCollectives) {
  Ranks ranks(4, kShort);
  for (int r = 0; r < 4; ++r) {
    ranks[r].collective.name = r == 1 ? "broadcast" : "all-gather";
    ranks[r].collectives = r == 1 ? 11 : 12;
  }
  const auto verdict = ranks.stand_still(10);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  const FaultRecord record = describe(*verdict, ranks.judge.note(1));
  EXPECT_EQ(record.exit_code, 5);
  EXPECT_NE(to_block(record).find("in broadcast"), std::string::npos) << to_block(record);
}

TEST(FailureDetector, WhoLeftWhileOthersWaitIsToBlame) {
  Ranks ranks(3, kShort);
  ranks.judge.goodbye(1, false, 0);
  for (int r : {0, 2}) ranks[r].collective.name = "barrier";
  const auto verdict = ranks.stand_still(10);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->has_left);
}

TEST(FailureDetector, EachStageHasItsLimit) {
  const auto seconds_until_stuck = [](RunStage stage) {
    Ranks ranks(2, kShort);
    for (int r = 0; r < 2; ++r) {
      ranks[r].stage = stage;
      ranks[r].step = 0;
    }
    const auto verdict = ranks.stand_still(1000);
    return verdict ? verdict->seconds : -1;
  };
  EXPECT_NEAR(seconds_until_stuck(RunStage::start), 20, 2 * kBeat);
  EXPECT_NEAR(seconds_until_stuck(RunStage::training), 3, 2 * kBeat);
  EXPECT_NEAR(seconds_until_stuck(RunStage::evaluation), 6, 2 * kBeat);
  EXPECT_NEAR(seconds_until_stuck(RunStage::saving), 10, 2 * kBeat);
}

TEST(FailureDetector, OthersMayWaitForASaveAsLongAsItMayTake) {
  Ranks ranks(2, kShort);
  ranks[0].stage = RunStage::saving;
  ranks[1].collective.name = "broadcast";
  const auto verdict = ranks.stand_still(100);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 0);
  EXPECT_NEAR(verdict->seconds, 10, 2 * kBeat);
}

TEST(FailureDetector, TrainingMayTakeThreeTimesItsLongestPause) {
  Ranks ranks(2, kShort);
  ranks.work(1);
  EXPECT_FALSE(ranks.stand_still(2.5));
  ranks.work(1);
  const auto verdict = ranks.stand_still(100);
  ASSERT_TRUE(verdict);
  EXPECT_NEAR(verdict->seconds, 7.5, 1);
  EXPECT_NEAR(verdict->limit, 7.5, 1);
}

TEST(FailureDetector, TheFirstStepDoesNotMakeTrainingSlow) {
  Ranks ranks(2, kShort);
  for (int r = 0; r < 2; ++r) ranks[r].stage = RunStage::start;
  ranks.work(1);
  EXPECT_FALSE(ranks.stand_still(15));
  ranks.work(0.25);
  for (int r = 0; r < 2; ++r) ranks[r].stage = RunStage::training;
  ranks.work(1);
  const auto verdict = ranks.stand_still(100);
  ASSERT_TRUE(verdict);
  EXPECT_NEAR(verdict->seconds, 3, 2 * kBeat);
}

TEST(FailureDetector, EvaluationMayTakeWhatTrainingMay) {
  Ranks ranks(2, {.training_s = 30, .evaluation_s = 6});
  for (int r = 0; r < 2; ++r) ranks[r].stage = RunStage::evaluation;
  ranks.work(1);
  const auto verdict = ranks.stand_still(100);
  ASSERT_TRUE(verdict);
  EXPECT_NEAR(verdict->seconds, 30, 2 * kBeat);
  Ranks endless(2, {.training_s = 30, .evaluation_s = 0});
  for (int r = 0; r < 2; ++r) endless[r].stage = RunStage::evaluation;
  EXPECT_FALSE(endless.stand_still(1000));
}

TEST(FailureDetector, WhoIsLastAndWaitsForNobodyMayTakeItsTime) {
  Ranks ranks(3, kShort);
  ranks.judge.goodbye(1, false, 0);
  ranks.judge.goodbye(2, false, 0);
  EXPECT_FALSE(ranks.stand_still(1000));
  ranks[0].collective.name = "barrier";
  EXPECT_TRUE(ranks.stand_still(10)) << "it waits for those that have left";
}

TEST(FailureDetector, WhatADebuggerHeldIsForgiven) {
  Ranks ranks(2, kShort);
  ranks.work(1);
  const auto but_one = [](int r) { return r == 0; };
  EXPECT_FALSE(ranks.pass(2.5, Ranks::none, but_one));
  ranks.judge.hold(1, ranks.time);
  EXPECT_FALSE(ranks.pass(2.5, Ranks::none, but_one));
  EXPECT_TRUE(ranks.pass(2, Ranks::none, but_one));
}

TEST(FailureDetector, OtherStagesDoNotMakeTrainingSlow) {
  Ranks ranks(2, kShort);
  ranks.work(1);
  for (int r = 0; r < 2; ++r) ranks[r].stage = RunStage::evaluation;
  ranks.work(0.25);
  EXPECT_FALSE(ranks.stand_still(5.5));
  for (int r = 0; r < 2; ++r) ranks[r].stage = RunStage::training;
  ranks.work(1);
  const auto verdict = ranks.stand_still(100);
  ASSERT_TRUE(verdict);
  EXPECT_NEAR(verdict->seconds, 3, 2 * kBeat);
}

TEST(FailureDetector, ZeroWatchesNothingOfItsKind) {
  Ranks ranks(2, {.training_s = 0, .start_s = 0, .evaluation_s = 0, .saving_s = 0});
  EXPECT_FALSE(ranks.stand_still(5000));
  EXPECT_FALSE(ranks.pass(5000, Ranks::none, [](int r) { return r == 0; }));
  ranks.judge.closed(1, ranks.time);
  EXPECT_TRUE(ranks.judge.judge(ranks.time + 1)) << "death is seen all the same";
}

TEST(FailureDetector, ADebuggerMayStopARank) {
  Ranks ranks(2, kShort);
  ranks.time = kBeat;
  ranks.judge.wake(ranks.time);
  ranks.judge.beat(1, ranks[1], true, ranks.time);
  EXPECT_FALSE(ranks.pass(1000, Ranks::none, [](int r) { return r == 0; }));
}

TEST(FailureDetector, OtherRanksWatchRankZeroAlone) {
  FailureDetector judge(3, FailureDetector::Watches::rank_zero, 0);
  judge.set_limits(kShort);
  double time = 0;
  PositionNote note;
  for (; time < 100; time += kBeat) {
    judge.wake(time);
    judge.beat(0, note, false, time);
    ASSERT_FALSE(judge.judge(time));
  }
  for (; time < 110 && !judge.judge(time); time += kBeat) judge.wake(time);
  ASSERT_TRUE(judge.judge(time));
  EXPECT_EQ(judge.judge(time)->rank, 0);
  EXPECT_NEAR(time, 103, 1);
}

TEST(FaultRecordText, SaysWhatIsKnown) {
  FaultRecord record;
  record.rank = 3;
  record.host = "node7";
  record.process = 4711;
  record.cause = "expected this, got\nthat";
  record.hint = "do something";
  record.exit_code = 5;
  record.seen_by = 0;
  set_position(record,
               {.stage = RunStage::training,
                .phase = Phase::backward,
                .step = 1234,
                .collective = {.name = "exchange", .bytes = 4096, .bucket = 3}});
  EXPECT_EQ(to_block(record),
            "[rank 3 node7] error: expected this, got that\n"
            "  process 4711, step 1234, backward, in exchange of bucket 3; seen by rank 0\n"
            "hint: do something\n");
  const std::string json = to_json_line(record);
  EXPECT_EQ(json.find('\n'), std::string::npos);
  for (const char* part : {"\"fault\":{\"rank\":3",
                           "\"host\":\"node7\"",
                           "\"process\":4711",
                           "\"step\":1234",
                           "\"exit_code\":5",
                           "exchange of bucket 3"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  FaultRecord little;
  little.rank = 0;
  little.host = "a";
  little.cause = "b";
  EXPECT_EQ(to_block(little), "[rank 0 a] error: b\n");
}

}  // namespace
}  // namespace lockstep

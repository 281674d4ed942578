// SPDX-License-Identifier: Apache-2.0
// Watchdogs of up to 10,000 ranks by a simulated clock: who is accused, where, and when.
#include "parallel/watchdog/heartbeat_node.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/simulation/simulated_watch.h"
#include "parallel/watchdog/failure_report.h"

namespace lockstep {
namespace {

using simulation::SimulatedWatch;

constexpr double kTick = SimulatedWatch::kTick, kSlowBeat = SimulatedWatch::kSlowBeat;
const WatchLimits kSimulatedLimits{
    .training_s = 3, .start_s = 20, .evaluation_s = 6, .saving_s = 10};

struct SimulatedJob {
  int ranks, per_host, fan_out;
};

/// Stars, trees of hosts, of one host and of both.
const SimulatedJob kSimulatedJobs[] = {{2, 2, 32},
                                       {3, 1, 32},
                                       {33, 8, 32},
                                       {12, 3, 2},
                                       {34, 34, 32},
                                       {100, 1, 3},
                                       {500, 500, 32},
                                       {1000, 8, 32},
                                       {10000, 8, 32}};

SimulatedWatch make_watch(const SimulatedJob& job) {
  std::vector<int> hosts;
  for (int r = 0; r < job.ranks; ++r) hosts.push_back(r / job.per_host);
  return {hosts, job.fan_out, kSimulatedLimits};
}

/// Rank 0, its child with the most ranks below, one between that and leaves, and the deepest.
std::vector<int> kinds_of_ranks(const watch::HeartbeatTree& tree) {
  int child = 1, deepest = 1;
  for (const int r : tree.children(0))
    if (tree.subtree_size(r) > tree.subtree_size(child)) child = r;
  for (int r = 1; r < tree.ranks(); ++r)
    if (tree.depth(r) > tree.depth(deepest)) deepest = r;
  std::vector<int> ranks{0, child, tree.parent(deepest), deepest};
  std::ranges::sort(ranks);
  const auto rest = std::ranges::unique(ranks);
  ranks.erase(rest.begin(), rest.end());
  return ranks;
}

template <typename Fault>
void for_each_fault(const Fault& fault) {
  for (const SimulatedJob& job : kSimulatedJobs) {
    SimulatedWatch first = make_watch(job);
    for (const int rank : kinds_of_ranks(first.tree())) {
      SCOPED_TRACE(fmt::format(
          "rank {} of {}, {} a host, fan-out {}", rank, job.ranks, job.per_host, job.fan_out));
      SimulatedWatch watch = make_watch(job);
      watch.pass(1 + rank % 3 * kTick);
      ASSERT_FALSE(watch.verdict()) << "of rank " << watch.verdict()->rank;
      fault(watch, rank);
    }
  }
}

/// All that live have a record of `rank`, at most `seconds` after `start`.
void expect_end(SimulatedWatch& watch, int rank, double start, double seconds) {
  EXPECT_TRUE(watch.is_over());
  ASSERT_TRUE(watch.verdict());
  EXPECT_EQ(watch.verdict()->rank, rank);
  double last = 0;
  int wrong = 0;
  for (int r = 0; r < watch.tree().ranks(); ++r) {
    if (watch[r].is_dead || watch[r].is_frozen) continue;
    wrong += watch[r].accused == rank ? 0 : 1;
    last = std::max(last, watch[r].ended_at);
  }
  EXPECT_EQ(wrong, 0) << "ranks that accuse another";
  EXPECT_LE(last - start, seconds);
}

/// Up the tree and down again.
double travel(const watch::HeartbeatTree& tree) { return (2 * tree.depth() + 2) * kTick; }

TEST(HeartbeatNode, ADeadRankIsNamedOnEveryOther) {
  for_each_fault([](SimulatedWatch& watch, int rank) {
    const double start = watch.time();
    watch.kill(rank);
    watch.pass(10);
    expect_end(watch, rank, start, FailureDetector::kFailureReportSeconds + travel(watch.tree()));
    EXPECT_EQ(watch.verdict()->kind, Verdict::Kind::died);
  });
}

// Silence of a whole subtree is that of its root. Also a host that is cut off.
TEST(HeartbeatNode, AFrozenRankIsNamedAndNoneBelowIt) {
  for_each_fault([](SimulatedWatch& watch, int rank) {
    const double start = watch.time();
    watch[rank].is_frozen = true;
    watch.pass(30);
    const watch::HeartbeatTree& tree = watch.tree();
    // In a star: the limit and two beats.
    expect_end(watch, rank, start, 3 + 2 * kSlowBeat + tree.depth() * kSlowBeat + travel(tree));
    EXPECT_EQ(watch.verdict()->kind, Verdict::Kind::frozen);
    EXPECT_EQ(watch.verdict()->below, rank > 0 ? tree.subtree_size(rank) - 1 : 0);
  });
}

TEST(HeartbeatNode, WhoHangsIsToldFromThoseThatWaitForIt) {
  for_each_fault([](SimulatedWatch& watch, int rank) {
    const double start = watch.time();
    for (int r = 0; r < watch.tree().ranks(); ++r) {
      watch[r].works = false;
      watch[r].note.phase = r == rank ? Phase::backward : Phase::exchange;
      if (r == rank) continue;
      watch[r].note.collective = {.name = "all-gather", .bytes = 4096};
      ++watch[r].note.collectives;
    }
    watch.pass(30);
    const watch::HeartbeatTree& tree = watch.tree();
    expect_end(watch, rank, start, 3 + 2 * kSlowBeat + tree.depth() * kSlowBeat + travel(tree));
    EXPECT_EQ(watch.verdict()->kind, Verdict::Kind::stuck);
    const FailureDetector& judge = watch[0].node->detector();
    EXPECT_EQ(describe(*watch.verdict(), judge.note(rank)).phase, "backward");
    const int other = rank == tree.ranks() - 1 ? 0 : tree.ranks() - 1;
    EXPECT_EQ(describe(*watch.verdict(), judge.note(other)).collective, "all-gather of 4096 bytes");
  });
}

TEST(HeartbeatNode, WhoEnteredTheFewestCollectivesIsKnownInAnyDepth) {
  for_each_fault([](SimulatedWatch& watch, int rank) {
    for (int r = 0; r < watch.tree().ranks(); ++r) {
      watch[r].works = false;
      watch[r].note.collective.name = r == rank ? "broadcast" : "all-gather";
      watch[r].note.collectives += r == rank ? 1 : 2;
    }
    watch.pass(30);
    ASSERT_TRUE(watch.verdict());
    EXPECT_EQ(watch.verdict()->rank, rank);
  });
}

TEST(HeartbeatNode, TheRecordOfADeathSaysWhereTheRankWas) {
  SimulatedWatch watch = make_watch({1000, 8, 32});
  const int rank = 999;
  watch.pass(1);
  watch[rank].note.step = 17;
  watch[rank].note.collective = {.name = "exchange", .bucket = 3};
  watch.pass(0.5);
  watch.kill(rank);
  watch.pass(10);
  ASSERT_TRUE(watch.verdict());
  const FaultRecord record =
      describe(*watch.verdict(), watch[0].node->detector().note(watch.verdict()->rank));
  EXPECT_EQ(record.rank, rank);
  EXPECT_EQ(record.step, 17);
  EXPECT_EQ(record.collective, "exchange of bucket 3");
}

TEST(HeartbeatNode, RanksThatWorkAreLeftAlone) {
  SimulatedWatch watch = make_watch({1000, 8, 32});
  watch.pass(60);
  EXPECT_FALSE(watch.verdict());
  for (int r = 1; r < 1000; ++r) watch[r].works = false;
  watch.pass(60);
  EXPECT_FALSE(watch.verdict()) << "one that works is enough";
}

TEST(HeartbeatNode, AShortFreezeOfAnInnerRankAccusesNobody) {
  SimulatedWatch watch = make_watch({100, 1, 3});
  watch.pass(1);
  const int rank = watch.tree().children(0).front();
  ASSERT_GT(watch.tree().subtree_size(rank), 10);
  watch[rank].is_frozen = true;
  watch.pass(2.5);
  watch[rank].is_frozen = false;
  watch.pass(20);
  EXPECT_FALSE(watch.verdict());
}

// Who is stopped for longer than the limit has nothing to say of its children at first, as their
// beats lie unread where its own goes out.
TEST(HeartbeatNode, WhomADebuggerStopsAndWhoIsBelowAreNotAccused) {
  for_each_fault([](SimulatedWatch& watch, int rank) {
    if (watch.tree().ranks() > 1000) return;
    watch[rank].is_traced = true;
    watch.pass(2 * kSlowBeat + watch.tree().depth() * kSlowBeat + travel(watch.tree()));
    watch[rank].is_frozen = true;
    watch.pass(4);
    EXPECT_FALSE(watch.verdict());
    watch[rank].is_frozen = watch[rank].reads = false;
    watch.pass(kTick);
    watch[rank].reads = true;
    watch.pass(2);
    EXPECT_FALSE(watch.verdict()) << "of rank " << watch.verdict()->rank;
    // It is watched as ever.
    watch[rank].is_traced = false;
    watch.pass(2);
    const double start = watch.time();
    watch[rank].is_frozen = true;
    watch.pass(30);
    const watch::HeartbeatTree& tree = watch.tree();
    expect_end(watch, rank, start, 3 + 2 * kSlowBeat + tree.depth() * kSlowBeat + travel(tree));
  });
}

// Rank 0 would otherwise accuse any of those that it does not hear any more, and these rank 0.
TEST(HeartbeatNode, TheHostOfRankZeroIsCutOff) {
  for (const SimulatedJob& job :
       {SimulatedJob{24, 8, 32}, {12, 3, 2}, {1000, 8, 32}, {10000, 8, 32}}) {
    SimulatedWatch watch = make_watch(job);
    watch.pass(1);
    const double start = watch.time();
    for (int r = 0; r < job.per_host; ++r) watch[r].side = 1;
    watch.pass(30);
    const watch::HeartbeatTree& tree = watch.tree();
    expect_end(watch, 0, start, 3 + 2 * kSlowBeat + tree.depth() * kSlowBeat + travel(tree));
    EXPECT_TRUE(watch.verdict()->is_cut_off);
    EXPECT_NE(describe(*watch.verdict(), {}).cause.find("hears of no other host"),
              std::string::npos);
  }
}

// Other hosts that are lost one after another, or while one still says goodbye, are not its fault.
TEST(HeartbeatNode, RankZeroIsNotAccusedOfWhatOthersSuffer) {
  const auto accused = [](auto&& play) {
    SimulatedWatch watch = make_watch({24, 8, 32});
    watch.pass(1);
    play(watch);
    watch.pass(30);
    return watch.verdict() ? watch.verdict()->rank : -1;
  };
  EXPECT_GE(accused([](SimulatedWatch& watch) {
              for (int r = 8; r < 16; ++r) watch[r].is_frozen = true;
              watch.pass(1.5);
              for (int r = 16; r < 24; ++r) watch[r].is_frozen = true;
            }),
            8);
  EXPECT_EQ(accused([](SimulatedWatch& watch) {
              watch[1].is_frozen = true;  // of its own host, and first
              watch.pass(1);
              for (int r = 8; r < 24; ++r) watch[r].is_frozen = true;
            }),
            1);
}

TEST(HeartbeatNode, OfTwoHostsTheOtherIsAccused) {
  SimulatedWatch watch = make_watch({16, 8, 32});
  watch.pass(1);
  for (int r = 0; r < 8; ++r) watch[r].side = 1;
  watch.pass(30);
  ASSERT_TRUE(watch.verdict());
  EXPECT_GE(watch.verdict()->rank, 8) << "no rank can know";
}

TEST(HeartbeatNode, AnErrorOfAnyRankEndsAllAfterThreeSeconds) {
  for (const int rank : {0, 1, 3, 9, 11}) {
    SimulatedWatch watch = make_watch({12, 3, 2});
    watch.pass(1);
    const double start = watch.time();
    watch.say_goodbye(rank, true);
    watch.pass(2.5);
    EXPECT_FALSE(watch.verdict()) << "it may be meeting others over it";
    watch.pass(5);
    expect_end(
        watch, rank, start, FailureDetector::kErrorSeconds + travel(watch.tree()) + kSlowBeat);
    EXPECT_EQ(watch.verdict()->kind, Verdict::Kind::failed);
  }
}

TEST(HeartbeatNode, WhoIsBelowARankThatLeftIsNotWatched) {
  SimulatedWatch watch = make_watch({12, 3, 2});
  watch.pass(1);
  watch.say_goodbye(3, false);
  watch.pass(60);
  EXPECT_FALSE(watch.verdict()) << "rank 4 is not silent: no rank hears it";
  // But those that wait for the rank that left blame it, none of these.
  for (int r = 0; r < 12; ++r) {
    watch[r].works = false;
    watch[r].note.collective.name = "barrier";
  }
  watch.pass(20);
  ASSERT_TRUE(watch.verdict());
  EXPECT_EQ(watch.verdict()->rank, 3);
  EXPECT_TRUE(watch.verdict()->has_left);
}

TEST(HeartbeatNode, LeavesMayLeaveBeforeTheirParents) {
  SimulatedWatch watch = make_watch({12, 3, 2});
  watch.pass(1);
  for (int r = 11; r > 0; --r) {
    watch.say_goodbye(r, false);
    watch.pass(0.3);
    EXPECT_FALSE(watch.verdict());
  }
}

// What rank 0 of 10,000 has to read while all work, and while all wait.
TEST(HeartbeatNode, RankZeroHearsLittle) {
  SimulatedWatch watch = make_watch({10000, 8, 32});
  const auto a_beat = [&](std::uint64_t before, std::uint64_t after, double seconds) {
    return double(after - before) * kBeatSeconds / seconds;
  };
  watch.pass(1);
  std::uint64_t messages = watch.messages_to_root(), bytes = watch.bytes_to_root();
  watch.pass(2);
  EXPECT_LE(a_beat(messages, watch.messages_to_root(), 2), 39 * 1.1) << "one of each child";
  EXPECT_LE(a_beat(bytes, watch.bytes_to_root(), 2), 100e3);
  bytes = watch.bytes_to_root();
  for (int r = 0; r < 10000; ++r) watch[r].works = false;
  watch.pass(2.75);
  ASSERT_FALSE(watch.verdict());
  const double once = 10000 * double(sizeof(watch::RankBeat));
  EXPECT_LE(double(watch.bytes_to_root() - bytes), once + 12 * 100e3) << "where they are, once";
}

}  // namespace
}  // namespace lockstep

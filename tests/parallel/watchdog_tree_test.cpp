// SPDX-License-Identifier: Apache-2.0
// Watchdogs of forked processes that are a tree: 12 ranks on what they take for four hosts.
//
//   0: 1, 2, 3, 6    3: 4, 5, 9    6: 7, 8    9: 10, 11
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text/fixed_text.h"
#include "parallel/watchdog/heartbeat_transport.h"
#include "tests/parallel/watched_ranks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using testing::Endings;
using testing::ForkedCommunicator;
using testing::ForkedRanks;
using testing::SharedMemory;

constexpr int kTreeRanks = 12, kRanksPerHost = 3, kFanOut = 2;
constexpr int kOtherCulprits = 8, kBelow = 9;  // flags, after those of watched_ranks.h

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr double kSlowTreeExit = 1.5;
#else
constexpr double kSlowTreeExit = 0;
#endif

double seconds_now() { return watch::now(); }

/// Ranks that take three of them for a host.
class OnHosts final : public SelfCommunicator {
 public:
  explicit OnHosts(ForkedCommunicator& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    world_.all_gather(send, recv, bytes);
    if (bytes != sizeof(watch::Peers::Card)) return;
    auto* const cards = static_cast<watch::Peers::Card*>(recv);
    for (int r = 0; r < size(); ++r)
      set_text(cards[r].network, fmt::format("host {}", r / kRanksPerHost));
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    world_.all_gather_v(send, recv, bytes);
    auto* const all = static_cast<watch::Invitation*>(recv);
    if (closed_port_of >= 0) all[closed_port_of].port = 1;
  }
  void all_reduce_max(std::span<std::uint64_t> values) override { world_.all_reduce_max(values); }

  int closed_port_of = -1;  // of those that listen

 private:
  ForkedCommunicator& world_;
};

/// flags[kCulprit] is the accused rank and 1; flags[kOtherCulprits] counts those who accuse
/// another.
Watchdog::FailureHandler tree_records(SharedMemory& memory) {
  return [&memory](const FaultRecord& record, bool speaks) {
    int none = 0;
    if (!memory.flags[kCulprit].compare_exchange_strong(none, record.rank + 1) &&
        none != record.rank + 1)
      ++memory.flags[kOtherCulprits];
    if (speaks) ++memory.flags[kSpoken];
    if (record.cause.find("report through it") != std::string::npos) ++memory.flags[kBelow];
    ++memory.flags[kRecords];
  };
}

/// `act(rank, watchdog, position)` once the watchdog watches, then work until stopped.
template <typename Act>
ForkedRanks::Body tree_working(const WatchLimits& limits, Act act) {
  return [=](ForkedCommunicator& world, SharedMemory& memory) {
    OnHosts hosts(world);
    Position position;
    position.set_step(3);
    position.enter(RunStage::training);
    Watchdog watchdog(hosts, position, tree_records(memory), limits, false, {}, kFanOut);
    if (!watchdog.blindness().empty()) ++memory.flags[kBlind];
    ++memory.flags[kReady];
    if (!act(world.rank(), watchdog, position)) return 7;
    while (memory.flags[kStop] == 0) {
      position.tick();
      std::this_thread::sleep_for(2ms);
    }
    return 0;
  };
}
ForkedRanks::Body tree_working(const WatchLimits& limits) {
  return tree_working(limits, [](int, Watchdog&, Position&) { return true; });
}

/// All but `but` have a record of `rank`, which was said once, and have ended with `code`.
void expect_records(ForkedRanks& ranks, const Endings& endings, int rank, int but, int code = 5) {
  for (int r = 0; r < kTreeRanks; ++r) {
    if (r == but) continue;
    EXPECT_EQ(endings[std::size_t(r)], code) << "rank " << r;
  }
  EXPECT_EQ(ranks.memory().flags[kCulprit], rank + 1);
  EXPECT_EQ(ranks.memory().flags[kOtherCulprits], 0);
  EXPECT_EQ(ranks.memory().flags[kRecords], but < 0 ? kTreeRanks : kTreeRanks - 1);
}

TEST(WatchdogTree, RanksThatWorkLeaveInOrder) {
  ForkedRanks ranks(kTreeRanks, tree_working(kThreeSeconds));
  ranks.await(kReady, kTreeRanks);
  EXPECT_EQ(ranks.memory().flags[kBlind], 0);
  std::this_thread::sleep_for(1s);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), Each(0));
  EXPECT_EQ(ranks.memory().flags[kRecords], 0);
}

// The root, an inner rank and the deepest leaf.
TEST(WatchdogTree, ADeadRankEndsTheOthersWithinTwoSeconds) {
  for (const int dead : {0, 3, 11}) {
    SCOPED_TRACE(dead);
    ForkedRanks ranks(kTreeRanks, tree_working({}));
    ranks.await(kReady, kTreeRanks);
    std::this_thread::sleep_for(300ms);
    const double start = seconds_now();
    ranks.signal(dead, SIGKILL);
    const Endings endings = ranks.wait(5, dead);
    EXPECT_LT(seconds_now() - start, 2 + kSlowTreeExit);
    expect_records(ranks, endings, dead, dead);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 1) << "one of them says it";
  }
}

TEST(WatchdogTree, AFrozenRankIsNamedAndNoneBelowIt) {
  for (const int frozen : {0, 3}) {
    SCOPED_TRACE(frozen);
    ForkedRanks ranks(kTreeRanks, tree_working(kOneSecond));
    ranks.await(kReady, kTreeRanks);
    std::this_thread::sleep_for(300ms);
    const double start = seconds_now();
    ranks.signal(frozen, SIGSTOP);
    const Endings endings = ranks.wait(6, frozen);
    EXPECT_LT(seconds_now() - start, kOneSecond.training_s + 3 + kSlowTreeExit);
    expect_records(ranks, endings, frozen, frozen);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 1);
    EXPECT_EQ(ranks.memory().flags[kBelow] > 0, frozen == 3) << "which has five below it";
  }
}

TEST(WatchdogTree, ARankThatHangsIsToldFromThoseThatWaitForIt) {
  const int stuck = 10;
  ForkedRanks ranks(kTreeRanks,
                    tree_working(kOneSecond, [](int rank, Watchdog&, Position& position) {
                      std::optional<CollectiveScope> scope;
                      if (rank != stuck)
                        scope.emplace(position, CollectiveNote{.name = "all-gather"});
                      std::this_thread::sleep_for(30s);
                      return true;
                    }));
  const Endings endings = ranks.wait(8);
  expect_records(ranks, endings, stuck, -1);
  EXPECT_EQ(ranks.memory().flags[kSpoken], 1);
}

TEST(WatchdogTree, WhatARankAnnouncesReachesAll) {
  for (const int faulting_rank : {3, 11}) {
    const auto announce = [=](int rank, Watchdog& watchdog, Position&) {
      if (rank != faulting_rank) return true;
      FaultRecord record;
      record.rank = rank;
      record.cause = "the loss is NaN";
      record.exit_code = 7;
      watchdog.announce(record);
      return false;
    };
    ForkedRanks ranks(kTreeRanks, tree_working({}, announce));
    const Endings endings = ranks.wait(5);
    EXPECT_THAT(endings, Each(7));
    EXPECT_EQ(ranks.memory().flags[kCulprit], faulting_rank + 1);
    EXPECT_EQ(ranks.memory().flags[kRecords], kTreeRanks - 1);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 0) << "it has said so itself";
  }
}

// Rank 3 is the second that listens, after rank 0.
TEST(WatchdogTree, WhereARankCannotReachItsParentNobodyIsWatched) {
  ForkedRanks ranks(kTreeRanks, [](ForkedCommunicator& world, SharedMemory& memory) {
    OnHosts hosts(world);
    if (world.rank() == 4) hosts.closed_port_of = 1;
    const Position position;
    const Watchdog watchdog(hosts, position, tree_records(memory), kOneSecond, false, {}, kFanOut);
    if (watchdog.blindness().find("rank 4 cannot reach rank 3") == 0) ++memory.flags[kBlind];
    ++memory.flags[kReady];
    while (memory.flags[kStop] == 0) std::this_thread::sleep_for(1ms);
    return 0;
  });
  ranks.await(kReady, kTreeRanks);
  EXPECT_EQ(ranks.memory().flags[kBlind], kTreeRanks) << "all know";
  ranks.signal(3, SIGKILL);
  std::this_thread::sleep_for(1500ms);
  ranks.memory().flags[kStop] = 1;
  const Endings endings = ranks.wait(5);
  for (int r = 0; r < kTreeRanks; ++r)
    EXPECT_EQ(endings[std::size_t(r)], r == 3 ? 1000 + SIGKILL : 0);
  EXPECT_EQ(ranks.memory().flags[kRecords], 0);
}

}  // namespace
}  // namespace lockstep

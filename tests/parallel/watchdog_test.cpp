// SPDX-License-Identifier: Apache-2.0
// Watchdogs of forked processes, which die, freeze, hang and leave.
#include "parallel/watchdog/watchdog.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "tests/parallel/watched_ranks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Endings;
using testing::ForkedCommunicator;
using testing::ForkedRanks;
using testing::SharedMemory;

// Sanitized processes take a second to exit.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr double kSlowExit = 1.5;
#else
constexpr double kSlowExit = 0;
#endif

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const WatchLimits kNoLimits{.training_s = 0, .start_s = 0, .evaluation_s = 0, .saving_s = 0};

/// A rank that works, as far as `until_stopped`, and leaves in order.
int work(ForkedCommunicator& world, SharedMemory& memory, const WatchLimits& limits) {
  Position position;
  position.set_step(3);
  position.enter(RunStage::training);
  const Watchdog watchdog(world, position, failure_handler(memory), limits);
  if (!watchdog.blindness().empty()) ++memory.flags[kBlind];
  ++memory.flags[kReady];
  while (memory.flags[kStop] == 0) {
    position.tick();
    std::this_thread::sleep_for(1ms);
  }
  return 0;
}

ForkedRanks::Body working(const WatchLimits& limits) {
  return [limits](ForkedCommunicator& world, SharedMemory& memory) {
    return work(world, memory, limits);
  };
}

TEST(Watchdog, RanksThatWorkLeaveInOrder) {
  ForkedRanks ranks(4, working(kThreeSeconds));
  ranks.await(kReady, 4);
  std::this_thread::sleep_for(4s);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), Each(0));
  EXPECT_EQ(ranks.memory().flags[kRecords], 0);
}

TEST(Watchdog, ADeadRankEndsTheOthersWithinTwoSeconds) {
  for (const int dead : {2, 0}) {
    ForkedRanks ranks(3, working({}));
    ranks.await(kReady, 3);
    const double start = now();
    ranks.signal(dead, SIGKILL);
    const Endings endings = ranks.wait(5);
    EXPECT_LT(now() - start, 2 + kSlowExit);
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(endings[std::size_t(r)], r == dead ? 1000 + SIGKILL : 5) << "rank " << r;
    EXPECT_EQ(ranks.memory().flags[kCulprit], dead);
    EXPECT_EQ(ranks.memory().flags[kRecords], 2) << "every other rank has the record";
    EXPECT_EQ(ranks.memory().flags[kSpoken], 1) << "one of them says it";
  }
}

/// A rank that outlives a death: ends with 40 + the rank that died, once it has its record.
int outlive(ForkedCommunicator& world,
            SharedMemory& memory,
            double patience_s,
            const WatchLimits& limits = {}) {
  Position position;
  position.enter(RunStage::training);
  Watchdog watchdog(world, position, failure_handler(memory), limits);
  watchdog.outlive_deaths(patience_s);
  ++memory.flags[kReady];
  while (memory.flags[kStop] == 0) std::this_thread::sleep_for(1ms);
  const auto record = watchdog.await_death(3);
  if (patience_s < 3) std::this_thread::sleep_for(5s);
  return record ? 40 + record->rank : 1;
}

TEST(Watchdog, RanksOutliveADeathWithItsRecord) {
  for (const int dead : {2, 0}) {
    ForkedRanks ranks(4, [](ForkedCommunicator& world, SharedMemory& memory) {
      return outlive(world, memory, 30);
    });
    ranks.await(kReady, 4);
    ranks.signal(dead, SIGKILL);
    ranks.memory().flags[kStop] = 1;
    const Endings endings = ranks.wait(5);
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(endings[std::size_t(r)], r == dead ? 1000 + SIGKILL : 40 + dead) << "rank " << r;
    EXPECT_EQ(ranks.memory().flags[kRecords], 3);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 1);
  }
}

TEST(Watchdog, AFrozenRankIsKilledWhereTheOthersOutliveIt) {
  for (const int frozen : {2, 0}) {
    ForkedRanks ranks(4, [](ForkedCommunicator& world, SharedMemory& memory) {
      return outlive(world, memory, 30, kThreeSeconds);
    });
    ranks.await(kReady, 4);
    ranks.signal(frozen, SIGSTOP);
    ranks.await(kRecords, 3);
    ranks.memory().flags[kStop] = 1;
    const Endings endings = ranks.wait(5);
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(endings[std::size_t(r)], r == frozen ? 1000 + SIGKILL : 40 + frozen)
          << "rank " << r;
    EXPECT_EQ(ranks.memory().flags[kRecords], 3);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 1);
  }
}

TEST(Watchdog, TwoThatAreFrozenAreKilled) {
  ForkedRanks ranks(4, [](ForkedCommunicator& world, SharedMemory& memory) {
    return outlive(world, memory, 30, kThreeSeconds);
  });
  ranks.await(kReady, 4);
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(300ms);
  ranks.signal(3, SIGSTOP);
  ranks.await(kRecords, 2);
  std::this_thread::sleep_for(1s);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), ElementsAre(41, 1000 + SIGKILL, 41, 1000 + SIGKILL));
}

TEST(Watchdog, ARankThatDoesNotNoticeADeathInTimeEndsWithIt) {
  ForkedRanks ranks(2, [](ForkedCommunicator& world, SharedMemory& memory) {
    return outlive(world, memory, 0.5);
  });
  ranks.await(kReady, 2);
  ranks.signal(1, SIGKILL);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), ElementsAre(5, 1000 + SIGKILL));
}

TEST(Watchdog, AfterTheRunADeathEndsTheOthersAgain) {
  ForkedRanks ranks(2, [](ForkedCommunicator& world, SharedMemory& memory) {
    Position position;
    position.enter(RunStage::training);
    Watchdog watchdog(world, position, failure_handler(memory));
    watchdog.outlive_deaths(30);
    ++memory.flags[kReady];
    while (memory.flags[kStop] == 0) std::this_thread::sleep_for(1ms);
    (void)watchdog.await_death(3);
    watchdog.outlive_deaths(0);
    std::this_thread::sleep_for(10s);
    return 0;
  });
  ranks.await(kReady, 2);
  ranks.signal(0, SIGKILL);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), ElementsAre(1000 + SIGKILL, 5));
}

TEST(Watchdog, AnEarlyExitIsADeath) {
  ForkedRanks ranks(2, [](ForkedCommunicator& world, SharedMemory& memory) {
    if (world.rank() == 0) return work(world, memory, {});
    const Position position;
    const Watchdog watchdog(world, position);
    _exit(0);
  });
  EXPECT_THAT(ranks.wait(5), ElementsAre(5, 0));
  EXPECT_EQ(ranks.memory().flags[kCulprit], 1);
}

TEST(Watchdog, AFrozenRankEndsTheOthersWithExitCodeFive) {
  for (const int frozen : {1, 0}) {
    ForkedRanks ranks(3, working(kOneSecond));
    ranks.await(kReady, 3);
    std::this_thread::sleep_for(500ms);
    const double start = now();
    ranks.signal(frozen, SIGSTOP);
    const Endings endings = ranks.wait(5, frozen);
    EXPECT_LT(now() - start, kOneSecond.training_s + 3 + kSlowExit);
    for (int r = 0; r < 3; ++r) {
      if (r == frozen) continue;
      EXPECT_EQ(endings[std::size_t(r)], 5) << "rank " << r;
    }
    EXPECT_EQ(ranks.memory().flags[kCulprit], frozen);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 1);
  }
}

TEST(Watchdog, AFreezeOfHalfTheTimeSurvives) {
  for (const int frozen : {1, 0}) {
    ForkedRanks ranks(3, working({.training_s = 3}));
    ranks.await(kReady, 3);
    ranks.signal(frozen, SIGSTOP);
    std::this_thread::sleep_for(1s);
    ranks.signal(frozen, SIGCONT);
    std::this_thread::sleep_for(4s);
    EXPECT_EQ(ranks.memory().flags[kRecords], 0);
    ranks.memory().flags[kStop] = 1;
    EXPECT_THAT(ranks.wait(5), Each(0));
  }
}

TEST(Watchdog, AllFrozenAtOnceAccuseNobody) {
  ForkedRanks ranks(3, working(kThreeSeconds));
  ranks.await(kReady, 3);
  for (int r = 0; r < 3; ++r) ranks.signal(r, SIGSTOP);
  std::this_thread::sleep_for(5s);
  for (int r = 2; r >= 0; --r) ranks.signal(r, SIGCONT);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(ranks.memory().flags[kRecords], 0);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), Each(0));
}

TEST(Watchdog, ARankThatHangsIsToldFromThoseThatWaitForIt) {
  ForkedRanks ranks(3, [](ForkedCommunicator& world, SharedMemory& memory) {
    Position position;
    position.set_step(3);
    position.enter(RunStage::training);
    const Watchdog watchdog(world, position, failure_handler(memory), kOneSecond);
    std::optional<CollectiveScope> scope;
    if (world.rank() != 1) scope.emplace(position, CollectiveNote{.name = "all-gather"});
    std::this_thread::sleep_for(30s);
    return 0;
  });
  EXPECT_THAT(ranks.wait(5), Each(5)) << "the culprit ends as well";
  EXPECT_EQ(ranks.memory().flags[kCulprit], 1);
  EXPECT_EQ(ranks.memory().flags[kRecords], 3);
  EXPECT_EQ(ranks.memory().flags[kSpoken], 1);
}

TEST(Watchdog, WhatARankAnnouncesEndsTheOthersSilently) {
  for (const int faulting_rank : {1, 0}) {
    ForkedRanks ranks(3, [faulting_rank](ForkedCommunicator& world, SharedMemory& memory) {
      if (world.rank() != faulting_rank) return work(world, memory, {});
      const Position position;
      Watchdog watchdog(world, position);
      FaultRecord record;
      record.rank = faulting_rank;
      record.cause = "the loss is NaN";
      record.exit_code = 7;
      watchdog.announce(record);
      return 7;
    });
    EXPECT_THAT(ranks.wait(3), Each(7));
    EXPECT_EQ(ranks.memory().flags[kCulprit], faulting_rank);
    EXPECT_EQ(ranks.memory().flags[kRecords], 2);
    EXPECT_EQ(ranks.memory().flags[kSpoken], 0) << "it has said so itself";
  }
}

TEST(Watchdog, WhoLeavesWithAnExceptionHasTimeToSayWhy) {
  ForkedRanks ranks(2, [](ForkedCommunicator& world, SharedMemory& memory) {
    if (world.rank() == 0) return work(world, memory, {});
    try {
      const Position position;
      const Watchdog watchdog(world, position);
      throw DataError("bad");
    } catch (const DataError&) {
      std::this_thread::sleep_for(1s);
      memory.flags[kMarks] = memory.flags[kRecords].load();
      std::this_thread::sleep_for(30s);
    }
    return 0;
  });
  EXPECT_EQ(ranks.wait(6, 1)[0], 1);
  EXPECT_EQ(ranks.memory().flags[kMarks], 0) << "not taken for dead at once";
  EXPECT_EQ(ranks.memory().flags[kCulprit], 1);
}

TEST(Watchdog, LastWordsThatHangDelayTheEndByTwoSecondsAtMost) {
  ForkedRanks ranks(2, [](ForkedCommunicator& world, SharedMemory& memory) {
    const Position position;
    const Watchdog watchdog(
        world, position, [](const FaultRecord&, bool) { std::this_thread::sleep_for(60s); });
    ++memory.flags[kReady];
    std::this_thread::sleep_for(60s);
    return 0;
  });
  ranks.await(kReady, 2);
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.wait(4)[0], 5);
}

TEST(Watchdog, SixteenRanks) {
  ForkedRanks ranks(16, working({}));
  ranks.await(kReady, 16);
  ranks.signal(10, SIGKILL);
  const Endings endings = ranks.wait(8);
  for (int r = 0; r < 16; ++r) EXPECT_EQ(endings[std::size_t(r)], r == 10 ? 1000 + SIGKILL : 5);
  EXPECT_EQ(ranks.memory().flags[kCulprit], 10);
}

TEST(Watchdog, WithoutAnyLimitNobodyIsWatched) {
  ForkedRanks ranks(2, working(kNoLimits));
  ranks.await(kReady, 2);
  ranks.signal(1, SIGKILL);
  std::this_thread::sleep_for(2s);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), ElementsAre(0, 1000 + SIGKILL));
  EXPECT_EQ(ranks.memory().flags[kBlind], 0) << "as was asked for";
}

TEST(Watchdog, ADebuggerThatStopsAllThreadsIsNoFreeze) {
  ForkedRanks ranks(3, working(kOneSecond));
  ranks.await(kReady, 3);
  std::vector<pid_t> threads;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", ranks.process(1))))
    threads.push_back(std::stoi(thread.path().filename().string()));
  ASSERT_GE(threads.size(), 2u) << "the rank's and its watchdog's; a sanitizer has more";
  for (const pid_t thread : threads) {
    ASSERT_EQ(ptrace(PTRACE_SEIZE, thread, nullptr, nullptr), 0);
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
  }
  std::this_thread::sleep_for(4s);
  EXPECT_EQ(ranks.memory().flags[kRecords], 0);
  ranks.signal(1, SIGKILL);
  // A thread that is traced is not gone until its tracer has seen it go.
  for (const pid_t thread : threads)
    if (thread != ranks.process(1))
      while (waitpid(thread, nullptr, __WALL) > 0) {
      }
  const Endings endings = ranks.wait(5, 1);
  EXPECT_EQ(endings[0], 5) << "a death is seen all the same";
  EXPECT_EQ(ranks.memory().flags[kCulprit], 1);
}

/// A rank, its launcher, which ends once all are ready, and the launcher's launcher, which reads
/// what the rank left.
int outlive_launcher(ForkedCommunicator& world,
                     SharedMemory& memory,
                     const WatchLimits& limits,
                     bool has_launcher) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t launcher = fork();
  if (launcher == 0) {
    if (fork() == 0) {
      const Position position;
      const Watchdog watchdog(world, position, failure_handler(memory), limits, has_launcher);
      ++memory.flags[kReady];
      std::this_thread::sleep_for(3s);
      _exit(42);
    }
    while (memory.flags[kReady] < world.size()) std::this_thread::sleep_for(1ms);
    _exit(0);
  }
  waitpid(launcher, nullptr, 0);
  int status = 0;
  waitpid(-1, &status, 0);
  return WIFSIGNALED(status) ? 99 : WEXITSTATUS(status);
}

TEST(Watchdog, ARankEndsWithItsLauncher) {
  for (const bool has_launcher : {true, false}) {
    ForkedRanks ranks(1, [has_launcher](ForkedCommunicator& world, SharedMemory& memory) {
      return outlive_launcher(world, memory, {}, has_launcher);
    });
    EXPECT_THAT(ranks.wait(8), ElementsAre(has_launcher ? 1 : 42));
    EXPECT_EQ(ranks.memory().flags[kRecords], has_launcher ? 1 : 0);
  }
}

TEST(Watchdog, RanksThatNobodyWatchesEndWithTheirLaunchers) {
  ForkedRanks ranks(3, [](ForkedCommunicator& world, SharedMemory& memory) {
    return outlive_launcher(world, memory, kNoLimits, true);
  });
  EXPECT_THAT(ranks.wait(8), Each(1));
  EXPECT_EQ(ranks.memory().flags[kRecords], 3);
}

}  // namespace
}  // namespace lockstep

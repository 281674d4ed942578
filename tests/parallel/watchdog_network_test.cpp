// SPDX-License-Identifier: Apache-2.0
// Watchdogs of forked processes whose way to each other a firewall blocks, or strangers use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

#include "parallel/watchdog/heartbeat_protocol.h"
#include "tests/parallel/watched_ranks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::ForkedCommunicator;
using testing::ForkedRanks;
using testing::SharedMemory;

/// What a job says to each other before its watchdogs are connected.
class Meeting : public SelfCommunicator {
 public:
  explicit Meeting(ForkedCommunicator& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    world_.all_gather(send, recv, bytes);
  }
  void all_reduce_max(std::span<std::uint64_t> values) override { world_.all_reduce_max(values); }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    world_.all_gather_v(send, recv, bytes);
    on_invitation(*static_cast<watch::Invitation*>(recv));
  }
  virtual void on_invitation(watch::Invitation& invitation) = 0;  // rank 0's

 protected:
  ForkedCommunicator& world_;
};

/// A job whose rank 1 learns of a port that is closed.
class Firewalled final : public Meeting {
 public:
  using Meeting::Meeting;
  void on_invitation(watch::Invitation& invitation) override {
    if (rank() == 1) invitation.port = 1;
  }
};

TEST(WatchdogNetwork, WhereARankCannotReachRankZeroNobodyIsWatched) {
  ForkedRanks ranks(3, [](ForkedCommunicator& world, SharedMemory& memory) {
    Firewalled blocked(world);
    const Position position;
    const Watchdog watchdog(blocked, position, failure_handler(memory), kOneSecond);
    const bool named = watchdog.blindness().find("rank 1 cannot reach rank 0") == 0;
    if (named) ++memory.flags[kBlind];
    ++memory.flags[kReady];
    while (memory.flags[kStop] == 0) std::this_thread::sleep_for(1ms);
    return 0;
  });
  ranks.await(kReady, 3);
  EXPECT_EQ(ranks.memory().flags[kBlind], 3) << "all know";
  ranks.signal(2, SIGKILL);
  std::this_thread::sleep_for(3s);
  ranks.memory().flags[kStop] = 1;
  EXPECT_THAT(ranks.wait(5), ElementsAre(0, 0, 1000 + SIGKILL));
  EXPECT_EQ(ranks.memory().flags[kRecords], 0);
}

/// A job at whose port strangers stand before its ranks come: silent, with noise, with lengths that
/// no program has memory for. They stay.
class Besieged final : public Meeting {
 public:
  using Meeting::Meeting;
  void on_invitation(watch::Invitation& invitation) override {
    for (int i = 0; i < kStrangers && rank() == 1; ++i) send_stranger(invitation, i);
    world_.barrier();
  }

 private:
  static constexpr int kStrangers = 600;
  void send_stranger(const watch::Invitation& invitation, int number) {
    static constexpr char kHuge[] = "\1\0\0\0\xff\xff\xff\x7f and no more";
    static const std::string noise(4096, 'O');
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(invitation.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    watch::Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (number % 3 == 1) send(made.get(), kHuge, sizeof kHuge, MSG_NOSIGNAL);
    if (number % 3 == 2) send(made.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
    strangers_.push_back(std::move(made));
  }

  std::vector<watch::Descriptor> strangers_;
};

TEST(WatchdogNetwork, StrangersAtTheDoorDoNotSwitchItOff) {
  ForkedRanks ranks(3, [](ForkedCommunicator& world, SharedMemory& memory) {
    Besieged besieged(world);
    Position position;
    position.enter(RunStage::training);
    const Watchdog watchdog(besieged, position, failure_handler(memory), kThreeSeconds);
    if (!watchdog.blindness().empty()) ++memory.flags[kBlind];
    ++memory.flags[kReady];
    while (memory.flags[kStop] == 0) {
      position.tick();
      std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  ranks.await(kReady, 3);
  EXPECT_EQ(ranks.memory().flags[kBlind], 0);
  ranks.signal(2, SIGKILL);
  EXPECT_THAT(ranks.wait(5), ElementsAre(5, 5, 1000 + SIGKILL));
  EXPECT_EQ(ranks.memory().flags[kCulprit], 2);
}

// Rank 1 listens, a process connects, and it freezes: rank 0's record names who.
TEST(WatchdogNetwork, TheRecordOfAFreezeNamesStrangers) {
  ForkedRanks ranks(2, [](ForkedCommunicator& world, SharedMemory& memory) {
    Position position;
    position.enter(RunStage::training);
    watch::Invitation invitation;
    const watch::Descriptor listener = world.rank() == 1
                                           ? listen_for(2, watch::Reach::this_host, invitation)
                                           : watch::Descriptor();
    memory.flags[kPort] += invitation.port;
    const Watchdog watchdog(
        world,
        position,
        [&](const FaultRecord& record, bool) {
          const std::string port = fmt::format("port {} of rank 1", memory.flags[kPort].load());
          if (record.details.find(port) != std::string::npos) ++memory.flags[kMarks];
        },
        kOneSecond);
    ++memory.flags[kReady];
    for (;;) {
      position.tick();
      std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  ranks.await(kReady, 2);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(std::uint16_t(ranks.memory().flags[kPort]));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const watch::Descriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ranks.signal(1, SIGSTOP);
  EXPECT_EQ(ranks.wait(6, 1)[0], 5);
  EXPECT_EQ(ranks.memory().flags[kMarks], 1);
}

}  // namespace
}  // namespace lockstep

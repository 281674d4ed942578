// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpirun_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kUser = 1000, kOther = 1001;

IpAddress address(const char* text) { return parse_ip_address(text).value(); }

TcpSocket connected(const char* local,
                    std::uint16_t local_port,
                    const char* remote,
                    std::uint16_t remote_port,
                    std::uint64_t inode,
                    std::uint32_t user) {
  TcpSocket socket;
  socket.state = TcpSocket::State::connected;
  socket.local = address(local);
  socket.local_port = local_port;
  socket.remote = address(remote);
  socket.remote_port = remote_port;
  socket.inode = inode;
  socket.user = user;
  return socket;
}

/// An mpirun of kUser on 10.0.0.1 that listens on 1024 and has accepted connection 200.
class StrangersAtMpirun : public ::testing::Test {
 protected:
  StrangersAtMpirun() {
    TcpSocket listener;
    listener.state = TcpSocket::State::listening;
    listener.local_port = 1024;
    listener.inode = 100;
    listener.user = kUser;
    table_.push_back(listener);
  }
  std::vector<std::uint64_t> find() const {
    return strangers_at(table_, {{100, 5}, {200, 6}}, kUser, own_);
  }
  std::vector<TcpSocket> table_;
  std::vector<IpAddress> own_{address("10.0.0.1")};
};

TEST_F(StrangersAtMpirun, ProcessesOfTheSameUserAreNone) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200, kUser));
  table_.push_back(connected("10.0.0.1", 5000, "10.0.0.1", 1024, 300, kUser));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(StrangersAtMpirun, AnotherUserOfThisHostIsOne) {
  table_.push_back(connected("127.0.0.1", 1024, "127.0.0.1", 5000, 200, kUser));
  table_.push_back(connected("127.0.0.1", 5000, "127.0.0.1", 1024, 300, kOther));
  EXPECT_THAT(find(), ElementsAre(200));
}

TEST_F(StrangersAtMpirun, AnotherHostIsOne) {
  table_.push_back(connected("10.0.0.1", 1024, "10.1.2.3", 5000, 200, kUser));
  EXPECT_THAT(find(), ElementsAre(200));
}

TEST_F(StrangersAtMpirun, WhereTheOtherEndCannotBeSeenThisHostIsTrusted) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200, kUser));
  EXPECT_THAT(find(), IsEmpty());
}

/// Its socket has no owner any more, and what it said last is still to be read.
TEST_F(StrangersAtMpirun, ARankThatHasEndedIsNone) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200, kUser));
  table_.push_back(connected("10.0.0.1", 5000, "10.0.0.1", 1024, 0, 0));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(StrangersAtMpirun, ConnectionsThatMpirunOpenedItselfStay) {
  table_.push_back(connected("10.0.0.1", 6000, "10.1.2.3", 22, 200, kUser));
  EXPECT_THAT(find(), IsEmpty());
}

}  // namespace
}  // namespace lockstep

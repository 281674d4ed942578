// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/foreign_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

IpAddress address(const char* text) { return parse_ip_address(text).value(); }

TcpSocket listening(std::uint16_t port, std::uint64_t inode, bool of_ipv6 = false) {
  TcpSocket socket;
  socket.state = TcpSocket::State::listening;
  socket.local_port = port;
  socket.inode = inode;
  socket.of_ipv6 = of_ipv6;
  socket.local.ipv6 = of_ipv6;
  return socket;
}

TcpSocket connected(const char* local,
                    std::uint16_t local_port,
                    const char* remote,
                    std::uint16_t remote_port,
                    std::uint64_t inode) {
  TcpSocket socket;
  socket.state = TcpSocket::State::connected;
  socket.local = address(local);
  socket.local_port = local_port;
  socket.remote = address(remote);
  socket.remote_port = remote_port;
  socket.inode = inode;
  return socket;
}

/// Ranks 0 and 1 of this host, 10.0.0.1, which listen on 1024 and 1025; the job has 10.0.0.2 too.
class ForeignConnections : public ::testing::Test {
 protected:
  std::vector<ForeignConnection> find() const {
    return foreign_connections(table_, ranks_, job_addresses_);
  }
  std::vector<TcpSocket> table_{listening(1024, 100), listening(1025, 101), listening(22, 7)};
  std::vector<RankSockets> ranks_{{0, {{100, 15}, {200, 16}}}, {1, {{101, 15}, {201, 16}}}};
  std::vector<IpAddress> job_addresses_{address("10.0.0.1"), address("10.0.0.2")};
};

TEST_F(ForeignConnections, RanksAreNoStrangers) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200));
  table_.push_back(connected("10.0.0.1", 5000, "10.0.0.1", 1024, 201));
  table_.push_back(connected("10.0.0.1", 1025, "10.0.0.2", 5001, 201));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(ForeignConnections, AnotherHostIsNamedWithPortAndRank) {
  table_.push_back(connected("10.0.0.1", 1025, "10.1.2.3", 4567, 201));
  const auto found = find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_lines(std::vector<NamedConnection>{{found[0]}}),
            "  10.1.2.3:4567 is connected to port 1025 of rank 1, and is not a rank\n");
}

TEST_F(ForeignConnections, AlsoBeforeItsConnectionIsAccepted) {
  table_.push_back(connected("10.0.0.1", 1024, "10.1.2.3", 4567, 0));
  ASSERT_EQ(find().size(), 1u);
  EXPECT_EQ(find()[0].rank, 0);
}

TEST_F(ForeignConnections, AnotherProcessOfThisHostIsNamedWithItsUser) {
  table_.push_back(connected("127.0.0.1", 1024, "127.0.0.1", 4567, 200));
  table_.push_back(connected("127.0.0.1", 4567, "127.0.0.1", 1024, 999));
  table_.back().user = 1001;
  const auto found = find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].inode, 999u);
  EXPECT_THAT(to_lines(std::vector<NamedConnection>{{found[0]}}), HasSubstr("user 1001"));
  EXPECT_THAT(to_lines(std::vector<NamedConnection>{{found[0], 77}}), HasSubstr("process 77"));
}

TEST_F(ForeignConnections, PortsThatNoRankListensOnAreOthersBusiness) {
  table_.push_back(connected("10.0.0.1", 22, "10.1.2.3", 4567, 8));
  table_.push_back(connected("10.0.0.1", 40000, "10.1.2.3", 4567, 200));  // it has connected
  table_.push_back(connected("::1", 1024, "::1", 4567, 300));  // of IPv6, where 1024 is another's
  table_.back().of_ipv6 = true;
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(ForeignConnections, WhoCannotBeKnownIsNotAccused) {
  table_.push_back(
      connected("127.0.0.1", 1024, "127.0.0.1", 4567, 200));  // the other end is unseen
  EXPECT_THAT(find(), IsEmpty());
  table_.push_back(connected("127.0.0.1", 4567, "127.0.0.1", 1024, 0));  // its peer is gone
  EXPECT_THAT(find(), IsEmpty());
  table_.push_back(connected("10.0.0.1", 1024, "10.1.2.3", 4567, 200));
  job_addresses_.clear();
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(ForeignConnections, ACrowdIsBounded) {
  for (std::uint16_t port = 1; port <= 1000; ++port)
    table_.push_back(connected("10.0.0.1", 1024, "10.1.2.3", port, 0));
  const auto found = find();
  EXPECT_EQ(found.size(), kMaxForeign);
  const std::vector<NamedConnection> named(found.size(), NamedConnection{found[0]});
  const std::string lines = to_lines(named);
  EXPECT_LE(std::ranges::count(lines, '\n'), 9);
  EXPECT_THAT(lines, HasSubstr("more"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "core/host/tcp_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr const char* kListening =
    "   0: 00000000:0400 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 "
    "68218 1 00000000 100 0 0 10 0";
constexpr const char* kConnected =
    "  12: 0558D60A:0400 0658D60A:D431 01 00000000:00000000 02:000A 00000000     0        0 70001 "
    "4";
constexpr const char* kLoopbackOfIpv6 =
    "   1: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0";
constexpr const char* kMapped =
    "   2: 0000000000000000FFFF00000100007F:0400 0000000000000000FFFF00000200007F:0401 08 "
    "00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0";

TEST(TcpSockets, AListenerOnEveryInterface) {
  const auto socket = parse_tcp_socket(kListening);
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->state, TcpSocket::State::listening);
  EXPECT_EQ(socket->local_port, 1024);
  EXPECT_TRUE(socket->is_open_to_others());
  EXPECT_EQ(socket->user, 1001u);
  EXPECT_EQ(socket->inode, 68218u);
}

TEST(TcpSockets, AConnectionHasTwoEnds) {
  const auto socket = parse_tcp_socket(kConnected);
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->state, TcpSocket::State::connected);
  EXPECT_EQ(to_string(socket->local, socket->local_port), "10.214.88.5:1024");
  EXPECT_EQ(to_string(socket->remote, socket->remote_port), "10.214.88.6:54321");
  EXPECT_FALSE(socket->is_open_to_others());
}

TEST(TcpSockets, OnlyThisHostReachesLoopback) {
  const auto socket = parse_tcp_socket(kLoopbackOfIpv6);
  ASSERT_TRUE(socket);
  EXPECT_EQ(to_string(socket->local, socket->local_port), "[::1]:8080");
  EXPECT_FALSE(socket->is_open_to_others());
}

TEST(TcpSockets, Ipv4InASocketOfIpv6IsIpv4) {
  const auto socket = parse_tcp_socket(kMapped);
  ASSERT_TRUE(socket);
  EXPECT_TRUE(socket->of_ipv6);
  EXPECT_EQ(to_string(socket->local), "127.0.0.1");
  EXPECT_EQ(to_string(socket->remote), "127.0.0.2");
  EXPECT_EQ(socket->inode, 0u);
  EXPECT_EQ(socket->state, TcpSocket::State::connected) << "the other end has closed, this has not";
}

TEST(TcpSockets, WhatIsNoSocketIsNone) {
  for (const char* line :
       {"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
        "",
        "   0:",
        "   0: 00000000:0400",
        "   0: 0000000:0400 00000000:0000 0A 0 0 0 0 0 1",
        "   0: 0000000G:0400 00000000:0000 0A 0 0 0 0 0 1",
        "   0: 00000000:10400 00000000:0000 0A 0 0 0 0 0 1",
        "   0: 00000000:0400 00000000:0000 0A 0 0 0 -1 0 1",
        "   0: 00000000:0400 00000000:0000 0A 0 0 0 0 0 99999999999999999999999"})
    EXPECT_FALSE(parse_tcp_socket(line)) << line;
  // Whatever a line is cut to.
  const std::string whole = kListening;
  for (std::size_t size = 0; size <= whole.size(); ++size)
    if (const auto socket = parse_tcp_socket(whole.substr(0, size))) {
      EXPECT_EQ(socket->local_port, 1024);
    }
}

TEST(TcpSockets, NamesOfDescriptors) {
  EXPECT_EQ(parse_socket_inode("socket:[4711]"), 4711u);
  for (const char* link :
       {"pipe:[4711]", "socket:[]", "socket:[4711", "socket:[-1]", "/dev/null", ""})
    EXPECT_FALSE(parse_socket_inode(link)) << link;
}

TEST(TcpSockets, OfThisProcess) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  int found = 0;
  for (const TcpSocket& socket : tcp_sockets("self")) {
    if (socket.state != TcpSocket::State::listening || socket.local_port != port) continue;
    ++found;
    EXPECT_FALSE(socket.is_open_to_others());
    EXPECT_EQ(process_with_socket(socket.inode), getpid());
    EXPECT_TRUE(holds(open_sockets("self"), socket.inode));
  }
  EXPECT_EQ(found, 1);
  close(listener);
  for (const TcpSocket& socket : tcp_sockets("self"))
    EXPECT_FALSE(socket.state == TcpSocket::State::listening && socket.local_port == port);
  EXPECT_TRUE(tcp_sockets("0").empty()) << "no such process";
}

TEST(IpAddress, Texts) {
  for (const char* text : {"10.1.2.3", "fe80::1", "::1", "127.0.1.1", "::"})
    EXPECT_EQ(to_string(parse_ip_address(text).value()), text);
  EXPECT_FALSE(parse_ip_address("host"));
  EXPECT_TRUE(parse_ip_address("127.0.1.1")->is_loopback());
  EXPECT_TRUE(parse_ip_address("fe80::1")->is_link_local());
  EXPECT_EQ(to_string(unmapped(parse_ip_address("::ffff:10.0.0.1").value())), "10.0.0.1");
  for (const NetworkInterface& one : network_interfaces())
    EXPECT_FALSE(one.address.is_loopback()) << one.name;
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Where this host has an address other than loopback, that plays another host.
#include "parallel/watchdog/listener_guard.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parallel/watchdog/heartbeat_protocol.h"

namespace lockstep {
namespace {

using watch::Descriptor;

sockaddr_in ipv4(const IpAddress& address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  std::memcpy(&result.sin_addr, address.bytes, 4);
  return result;
}

Descriptor listen_everywhere(std::uint16_t& port) {
  Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = ipv4({}, 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(made.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(made.get(), 8), 0);
  EXPECT_EQ(getsockname(made.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return made;
}

/// Whether a connection from `from` to `to` comes about within a second.
bool connects(const IpAddress& from, const IpAddress& to, std::uint16_t port) {
  const Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval second{1, 0};
  setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  const sockaddr_in source = ipv4(from, 0), target = ipv4(to, port);
  EXPECT_EQ(bind(made.get(), reinterpret_cast<const sockaddr*>(&source), sizeof source), 0);
  return connect(made.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0;
}

/// An address of this host that is not a loopback; nothing where it has none.
std::optional<IpAddress> own_address() {
  for (const NetworkInterface& one : network_interfaces())
    if (!one.address.ipv6) return one.address;
  return std::nullopt;
}

TEST(ListenerGuard, LoopbackIsAlwaysAdmitted) {
  std::uint16_t port = 0;
  const Descriptor listener = listen_everywhere(port);
  ASSERT_TRUE(admit_only(listener.get(), {}));
  EXPECT_TRUE(connects(ipv4_loopback(), ipv4_loopback(), port));
}

TEST(ListenerGuard, OthersAreTurnedAwayUnlessTheyAreAllowed) {
  const auto own = own_address();
  if (!own) GTEST_SKIP() << "this host has no address but loopback";
  std::uint16_t port = 0;
  const Descriptor listener = listen_everywhere(port);
  EXPECT_TRUE(connects(*own, *own, port)) << "before";
  ASSERT_TRUE(admit_only(listener.get(), {}));
  EXPECT_FALSE(connects(*own, *own, port));
  // Among many, the first, the last and one between.
  std::vector<IpAddress> allowed;
  for (std::uint8_t i = 1; i <= 200; ++i) allowed.push_back({.bytes = {203, 0, 113, i}});
  std::erase(allowed, *own);
  allowed.push_back({.bytes = {0x20, 1, 0xd, 0xb8}, .ipv6 = 1});
  ASSERT_TRUE(admit_only(listener.get(), allowed));
  EXPECT_FALSE(connects(*own, *own, port));
  for (const std::size_t place : {std::size_t{0}, allowed.size() / 2, allowed.size()}) {
    std::vector<IpAddress> with_own = allowed;
    with_own.insert(with_own.begin() + std::ptrdiff_t(place), *own);
    ASSERT_TRUE(admit_only(listener.get(), with_own));
    EXPECT_TRUE(connects(*own, *own, port)) << "at place " << place;
  }
}

TEST(ListenerGuard, ASocketOfIpv6AdmitsItsOwnLoopbackAndThatOfIpv4) {
  const Descriptor listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) GTEST_SKIP() << "this host has no IPv6";
  const int off = 0;
  setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_TRUE(admit_only(listener.get(), std::vector<IpAddress>{{.bytes = {203, 0, 113, 1}}}));
  EXPECT_TRUE(connects(ipv4_loopback(), ipv4_loopback(), ntohs(address.sin6_port)));
  const auto own = own_address();
  EXPECT_FALSE(own && connects(*own, *own, ntohs(address.sin6_port)));
  const Descriptor client(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address.sin6_addr = in6addr_loopback;
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST(ListenerGuard, MoreAddressesThanTheKernelTakesLeaveTheSocketAsItWas) {
  std::uint16_t port = 0;
  const Descriptor listener = listen_everywhere(port);
  EXPECT_FALSE(admit_only(listener.get(), std::vector<IpAddress>(5000)));
  EXPECT_FALSE(admit_only(-1, {}));
  const auto own = own_address();
  EXPECT_TRUE(!own || connects(*own, *own, port));
}

TEST(ListenerGuard, FindsWhatWasOpenedSince) {
  const auto before = own_listeners();
  std::uint16_t port = 0;
  const Descriptor listener = listen_everywhere(port);
  const auto opened = opened_since(before, own_listeners());
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0].descriptor, listener.get());
  EXPECT_EQ(opened[0].socket.local_port, port);
  EXPECT_TRUE(opened[0].socket.is_open_to_others());
}

}  // namespace
}  // namespace lockstep

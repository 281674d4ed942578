// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct sockaddr;

namespace lockstep {

/// An address of IPv4 (the first four bytes) or IPv6, in network order. Sent between ranks as it
/// lies in memory.
struct IpAddress {
  std::uint8_t bytes[16] = {};
  std::uint8_t ipv6 = 0;

  auto operator<=>(const IpAddress&) const = default;
  /// 127.0.0.0/8 and ::1.
  bool is_loopback() const;
  /// fe80::/10, which means something on its link only.
  bool is_link_local() const;
};

/// 127.0.0.1
IpAddress ipv4_loopback();
/// An IPv4 address that is written as one of IPv6 (::ffff:a.b.c.d) as IPv4, others as they are.
IpAddress unmapped(const IpAddress& address);
/// Nothing where it is neither IPv4 nor IPv6.
std::optional<IpAddress> ip_address(const sockaddr* from);
/// "10.1.2.3", "fe80::1"; nothing where it is not an address.
std::optional<IpAddress> parse_ip_address(const std::string& text);
std::string to_string(const IpAddress& address);
/// "10.1.2.3:4567", "[fe80::1]:4567"
std::string to_string(const IpAddress& address, std::uint16_t port);

struct NetworkInterface {
  std::string name;
  IpAddress address;
};
/// The addresses of the interfaces of this process's network that are up, IPv4 first; neither
/// loopback nor link-local ones.
std::vector<NetworkInterface> network_interfaces();

}  // namespace lockstep

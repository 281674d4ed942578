// SPDX-License-Identifier: Apache-2.0
#include "core/host/ip_address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep {

bool IpAddress::is_loopback() const {
  if (!ipv6) return bytes[0] == 127;
  return std::all_of(bytes, bytes + 15, [](std::uint8_t b) { return b == 0; }) && bytes[15] == 1;
}

bool IpAddress::is_link_local() const {
  return ipv6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

IpAddress ipv4_loopback() { return {.bytes = {127, 0, 0, 1}}; }

IpAddress unmapped(const IpAddress& address) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (!address.ipv6 || std::memcmp(address.bytes, kMapped, sizeof kMapped) != 0) return address;
  IpAddress result;
  std::memcpy(result.bytes, address.bytes + sizeof kMapped, 4);
  return result;
}

std::optional<IpAddress> ip_address(const sockaddr* from) {
  IpAddress address;
  if (from->sa_family == AF_INET) {
    std::memcpy(address.bytes, &reinterpret_cast<const sockaddr_in*>(from)->sin_addr, 4);
    return address;
  }
  if (from->sa_family != AF_INET6) return std::nullopt;
  address.ipv6 = 1;
  std::memcpy(address.bytes, &reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr, 16);
  return address;
}

std::optional<IpAddress> parse_ip_address(const std::string& text) {
  IpAddress address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes) == 1) return address;
  address.ipv6 = 1;
  if (inet_pton(AF_INET6, text.c_str(), address.bytes) == 1) return address;
  return std::nullopt;
}

std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.ipv6 ? AF_INET6 : AF_INET, address.bytes, text, sizeof text);
  return text;
}

std::string to_string(const IpAddress& address, std::uint16_t port) {
  const std::string host = to_string(address);
  return address.ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::vector<NetworkInterface> network_interfaces() {
  std::vector<NetworkInterface> result;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return result;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
      if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
      const auto address = ip_address(at->ifa_addr);
      if (!address || address->is_loopback() || address->is_link_local()) continue;
      result.push_back({at->ifa_name, *address});
    }
  freeifaddrs(all);
  return result;
}

}  // namespace lockstep

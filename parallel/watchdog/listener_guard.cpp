// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/listener_guard.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

using Instructions = std::vector<sock_filter>;
/// Of 8 bytes each: what a socket may ask the kernel for (net.core.optmem_max) is 20 KiB or more.
constexpr std::size_t kMaxInstructions = 2000;
constexpr std::uint32_t kAccept = 0xffffffff, kDrop = 0;
// Of the packet, from its IP header on.
constexpr std::uint32_t kIpHeader = std::uint32_t(SKF_NET_OFF);
constexpr std::uint32_t kIpSource4 = kIpHeader + 12, kIpSource6 = kIpHeader + 8;

sock_filter load_packet(std::uint32_t offset, std::uint16_t size) {
  return {std::uint16_t(BPF_LD | size | BPF_ABS), 0, 0, offset};
}
/// Continues with the next instruction where equal, else skips so many.
sock_filter require_equal(std::uint32_t value, std::uint8_t skip) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 0, skip, value};
}
sock_filter end_with(std::uint32_t verdict) { return {BPF_RET | BPF_K, 0, 0, verdict}; }

std::uint32_t word_of(const IpAddress& address, int word) {
  std::uint32_t value = 0;
  std::memcpy(&value, address.bytes + 4 * word, 4);
  return ntohl(value);
}

void admit(Instructions& code, const IpAddress& address) {
  if (!address.ipv6) {
    code.insert(code.end(), {require_equal(word_of(address, 0), 1), end_with(kAccept)});
    return;
  }
  for (int word = 0; word < 4; ++word) {
    const auto rest = std::uint8_t(2 * (3 - word) + 1);  // of this address's instructions
    code.insert(code.end(),
                {load_packet(kIpSource6 + std::uint32_t(4 * word), BPF_W),
                 require_equal(word_of(address, word), rest)});
  }
  code.push_back(end_with(kAccept));
}

Instructions filter_for(std::span<const IpAddress> allowed) {
  Instructions ipv4, ipv6;
  for (const IpAddress& address : allowed) admit(address.ipv6 ? ipv6 : ipv4, address);
  IpAddress loopback6;
  loopback6.ipv6 = loopback6.bytes[15] = 1;
  admit(ipv6, loopback6);
  // The version of the packet decides, since a socket of IPv6 takes IPv4 as well.
  Instructions code{load_packet(kIpHeader, BPF_B),
                    {BPF_ALU | BPF_RSH | BPF_K, 0, 0, 4},
                    {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 4},
                    {BPF_JMP | BPF_JA, 0, 0, std::uint32_t(ipv4.size() + 6)},
                    load_packet(kIpSource4, BPF_W),
                    {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xff000000},
                    require_equal(0x7f000000, 1),
                    end_with(kAccept),
                    load_packet(kIpSource4, BPF_W)};
  code.insert(code.end(), ipv4.begin(), ipv4.end());
  code.push_back(end_with(kDrop));
  code.insert(code.end(), ipv6.begin(), ipv6.end());
  code.push_back(end_with(kDrop));
  return code;
}

bool has_option(int descriptor, int option, int expected) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 && value == expected;
}

bool is_tcp_listener(int descriptor) {
  return has_option(descriptor, SO_ACCEPTCONN, 1) && has_option(descriptor, SO_TYPE, SOCK_STREAM) &&
         has_option(descriptor, SO_PROTOCOL, IPPROTO_TCP);
}

}  // namespace

// The sockets themselves are asked: the kernel's table has those of every process of the host,
// which each of its ranks would read.
std::vector<OwnListener> own_listeners() {
  std::vector<OwnListener> listeners;
  for (const auto& [inode, descriptor] : open_sockets("self")) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    if (!is_tcp_listener(descriptor) ||
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      continue;
    const auto address = ip_address(reinterpret_cast<const sockaddr*>(&at));
    if (!address) continue;
    const bool of_ipv6 = at.ss_family == AF_INET6;
    const in_port_t port = of_ipv6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                   : reinterpret_cast<const sockaddr_in&>(at).sin_port;
    listeners.push_back({{.local = unmapped(*address),
                          .remote = {},
                          .local_port = ntohs(port),
                          .state = TcpSocket::State::listening,
                          .of_ipv6 = of_ipv6,
                          .user = geteuid(),
                          .inode = inode},
                         descriptor});
  }
  return listeners;
}

std::vector<OwnListener> opened_since(std::span<const OwnListener> before,
                                      std::vector<OwnListener> now) {
  std::erase_if(now, [&](const OwnListener& one) {
    return std::ranges::any_of(
        before, [&](const OwnListener& old) { return old.socket.inode == one.socket.inode; });
  });
  return now;
}

bool admit_only(int listener, std::span<const IpAddress> allowed) {
  Instructions code = filter_for(allowed);
  if (code.size() > kMaxInstructions) return false;
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace lockstep

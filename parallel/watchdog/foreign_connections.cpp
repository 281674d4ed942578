// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/foreign_connections.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep {
namespace {

constexpr std::size_t kMaxNamed = 8;
constexpr std::size_t kMaxRanksLookedAt = 256;

/// A port that a rank listens on. IPv4 and IPv6 have ports of their own: the same number may be
/// another rank's.
struct OpenPort {
  bool of_ipv6 = false;
  std::uint16_t port = 0;
  int rank = -1;
  auto operator<=>(const OpenPort&) const = default;
};

std::vector<OpenPort> open_ports(std::span<const TcpSocket> table,
                                 std::span<const RankSockets> ranks) {
  std::vector<OpenPort> ports;
  for (const TcpSocket& socket : table) {
    if (socket.state != TcpSocket::State::listening) continue;
    const auto holder = std::ranges::find_if(
        ranks, [&](const RankSockets& rank) { return holds(rank.sockets, socket.inode); });
    if (holder != ranks.end()) ports.push_back({socket.of_ipv6, socket.local_port, holder->rank});
  }
  std::ranges::sort(ports);
  return ports;
}

const OpenPort* find_port(const std::vector<OpenPort>& ports, const TcpSocket& socket) {
  const OpenPort wanted{socket.of_ipv6, socket.local_port, -1};
  const auto at = std::ranges::lower_bound(ports, wanted);
  if (at == ports.end() || at->of_ipv6 != wanted.of_ipv6 || at->port != wanted.port) return nullptr;
  return &*at;
}

}  // namespace

std::vector<ForeignConnection> foreign_connections(std::span<const TcpSocket> table,
                                                   std::span<const RankSockets> ranks,
                                                   std::span<const IpAddress> job_addresses) {
  std::vector<ForeignConnection> found;
  const std::vector<OpenPort> ports = open_ports(table, ranks);
  for (const TcpSocket& socket : table) {
    if (found.size() == kMaxForeign || ports.empty()) break;
    if (socket.state != TcpSocket::State::connected) continue;
    const OpenPort* const port = find_port(ports, socket);
    if (port == nullptr) continue;
    ForeignConnection one{.rank = port->rank,
                          .port = port->port,
                          .address = socket.remote,
                          .remote_port = socket.remote_port};
    if (const TcpSocket* const other = other_end(table, socket)) {
      if (other->inode == 0) continue;  // closed: its peer is gone
      if (std::ranges::any_of(
              ranks, [&](const RankSockets& rank) { return holds(rank.sockets, other->inode); }))
        continue;
      one.on_this_host = true;
      one.user = other->user;
      one.inode = other->inode;
    } else if (job_addresses.empty() || socket.remote.is_loopback() ||
               std::ranges::find(job_addresses, socket.remote) != job_addresses.end()) {
      continue;
    }
    found.push_back(one);
  }
  return found;
}

std::string to_lines(std::span<const NamedConnection> connections) {
  std::string text;
  for (const NamedConnection& named : connections.first(std::min(connections.size(), kMaxNamed))) {
    const ForeignConnection& one = named.connection;
    std::string who = to_string(one.address, one.remote_port);
    if (named.process != 0)
      who += fmt::format(" (process {} of user {})", named.process, one.user);
    else if (one.on_this_host)
      who += fmt::format(" (user {} of this host)", one.user);
    text += fmt::format(
        "  {} is connected to port {} of rank {}, and is not a rank\n", who, one.port, one.rank);
  }
  if (connections.size() > kMaxNamed)
    text += fmt::format("  and {} more are\n", connections.size() - kMaxNamed);
  return text;
}

std::string look_for_strangers(std::span<const RankProcess> ranks,
                               std::span<const IpAddress> job_addresses) {
  std::vector<RankSockets> sockets;
  for (const RankProcess& one : ranks.first(std::min(ranks.size(), kMaxRanksLookedAt)))
    sockets.push_back({one.rank, open_sockets(std::to_string(one.process))});
  const std::vector<TcpSocket> table = tcp_table("self");
  std::vector<NamedConnection> named;
  for (const ForeignConnection& one : foreign_connections(table, sockets, job_addresses)) {
    // Only of those that are said: a look at every process takes time.
    const bool said = named.size() < kMaxNamed && one.on_this_host;
    named.push_back({one, said ? process_with_socket(one.inode) : 0});
  }
  return to_lines(named);
}

}  // namespace lockstep

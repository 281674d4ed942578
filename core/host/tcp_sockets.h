// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/host/ip_address.h"

namespace lockstep {

/// The TCP sockets of processes, as Linux lists them under /proc. Of what cannot be read there is
/// nothing, and no list grows beyond kMaxTcpSockets.
constexpr std::size_t kMaxTcpSockets = 1 << 20;

/// A line of /proc/PID/net/tcp or tcp6.
struct TcpSocket {
  enum class State : std::uint8_t {
    listening,
    connected,  ///< also where the other end has closed and this one has not
    other       ///< on its way into a connection or out of it
  };
  IpAddress local, remote;  ///< IPv4 ones as such, also where a socket of IPv6 has them
  std::uint16_t local_port = 0, remote_port = 0;
  State state = State::other;
  bool of_ipv6 = false;     ///< the socket, whatever its addresses are
  std::uint32_t user = 0;   ///< who opened it
  std::uint64_t inode = 0;  ///< 0: no process has it: it waits to be accepted, or is gone

  /// Whether it listens where other hosts can reach it.
  bool is_open_to_others() const { return state == State::listening && !local.is_loopback(); }
};

/// Nothing where the line is none of a socket, such as the head of the table.
std::optional<TcpSocket> parse_tcp_socket(std::string_view line);
/// 4711 of "socket:[4711]", as a process's descriptors are called.
std::optional<std::uint64_t> parse_socket_inode(std::string_view link);

/// All sockets of the network that `process` ("self" or its number) is in, whoever they belong to.
std::vector<TcpSocket> tcp_table(const std::string& process);
/// Of `table`, the socket that `one` is connected to; null where it is not on this host.
const TcpSocket* other_end(std::span<const TcpSocket> table, const TcpSocket& one);
/// Inode and descriptor of the sockets of a process, by inode.
using OpenSockets = std::vector<std::pair<std::uint64_t, int>>;
OpenSockets open_sockets(const std::string& process);
bool holds(const OpenSockets& sockets, std::uint64_t inode);
/// Those of tcp_table() that the process has open.
std::vector<TcpSocket> tcp_sockets(const std::string& process);
/// The number of a process that has the socket open; 0: none that this user may look into.
std::int64_t process_with_socket(std::uint64_t inode);

}  // namespace lockstep

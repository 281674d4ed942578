// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/host/tcp_sockets.h"

namespace lockstep {

/// A process of the job on this host, and the sockets that it has open.
struct RankSockets {
  int rank = -1;
  OpenSockets sockets;
};

/// A connection to a rank's port.
struct ForeignConnection {
  int rank = -1;
  std::uint16_t port = 0;
  IpAddress address;  ///< the other end's
  std::uint16_t remote_port = 0;
  bool on_this_host = false;  ///< the other end; then:
  std::uint32_t user = 0;
  std::uint64_t inode = 0;
};

/// The connections to ports that `ranks` listen on whose other end is not a process of the job: on
/// this host, where both ends are in `table`, a socket that none of `ranks` has; elsewhere, an
/// address that is none of `job_addresses` (where none is known, no other host is foreign). Also
/// those that the rank has not accepted yet, which a frozen one does not. At most kMaxForeign.
/// `ranks` are all of this host's.
constexpr std::size_t kMaxForeign = 64;
std::vector<ForeignConnection> foreign_connections(std::span<const TcpSocket> table,
                                                   std::span<const RankSockets> ranks,
                                                   std::span<const IpAddress> job_addresses);

/// "  10.1.2.3:4567 is connected to port 1024 of rank 1, and is not a rank", a line each, with user
/// and process where `process` is not 0; eight lines at most.
struct NamedConnection {
  ForeignConnection connection;
  std::int64_t process = 0;
};
std::string to_lines(std::span<const NamedConnection> connections);

/// A rank of this host.
struct RankProcess {
  int rank = -1;
  std::int64_t process = 0;
};
/// to_lines() of this host as it is. Reads /proc alone, of which at most kMaxTcpSockets entries of
/// each kind, so that it ends soon whatever strangers do.
std::string look_for_strangers(std::span<const RankProcess> ranks,
                               std::span<const IpAddress> job_addresses);

}  // namespace lockstep

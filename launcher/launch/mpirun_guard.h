// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/host/tcp_sockets.h"

namespace lockstep {

/// Of the connections that `sockets`, those of a process, have to ports on which it listens: the
/// ones whose other end belongs to a user of this host other than `user`, or is not on this host.
/// `own_addresses` are this host's.
std::vector<std::uint64_t> strangers_at(std::span<const TcpSocket> table,
                                        const OpenSockets& sockets,
                                        std::uint32_t user,
                                        std::span<const IpAddress> own_addresses);

/// Keeps strangers from an mpirun whose ranks are all on this host. Open MPI 4.1 listens on every
/// interface, and reads from who connects without a limit of time: one who holds a part of a
/// message stops its work. Here the kernel is set to drop what comes to it from other hosts
/// (admit_only()), and connections of other users of this host are shut down when seen. The
/// launcher must be a child of this process, since its sockets are reached through
/// pidfd_getfd(2); where the kernel (before 5.6) or a container refuses that, nothing is done, and
/// refusal() says so.
class MpirunGuard {
 public:
  explicit MpirunGuard(pid_t launcher);
  ~MpirunGuard();
  MpirunGuard(const MpirunGuard&) = delete;
  MpirunGuard& operator=(const MpirunGuard&) = delete;

  /// Looks where it is time to: often as long as the launcher may still open its ports and after
  /// every stranger, once a second later.
  void look();
  /// Milliseconds until the next look.
  int pause_ms() const;
  /// A warning where the kernel refuses to hand over the launcher's sockets; once.
  std::optional<std::string> refusal();

 private:
  using Clock = std::chrono::steady_clock;

  int take(const OpenSockets& sockets, std::uint64_t inode);

  pid_t launcher_;
  int process_;      // of pidfd_open(2), or -1
  int refused_ = 0;  // errno of a call that the kernel refused
  bool warned_ = false;
  std::vector<std::uint64_t> guarded_;  // listeners, by inode
  Clock::time_point started_ = Clock::now(), next_ = started_;
};

}  // namespace lockstep

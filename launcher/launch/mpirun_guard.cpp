// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/mpirun_guard.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "parallel/watchdog/listener_guard.h"

// Of all architectures; headers older than Linux 5.6 lack them.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace lockstep {
namespace {

/// mpirun opens its ports within a second; a loaded machine takes longer.
constexpr std::chrono::seconds kOpening{5};
constexpr std::chrono::milliseconds kWhileOpening{20}, kLater{1000};

int descriptor_of(const OpenSockets& sockets, std::uint64_t inode) {
  const auto at = std::ranges::lower_bound(sockets, inode, {}, &OpenSockets::value_type::first);
  return at != sockets.end() && at->first == inode ? at->second : -1;
}

std::vector<IpAddress> own_addresses() {
  std::vector<IpAddress> addresses;
  for (const NetworkInterface& one : network_interfaces()) addresses.push_back(one.address);
  return addresses;
}

}  // namespace

std::vector<std::uint64_t> strangers_at(std::span<const TcpSocket> table,
                                        const OpenSockets& sockets,
                                        std::uint32_t user,
                                        std::span<const IpAddress> own_addresses) {
  const auto listens_at = [&](const TcpSocket& one) {
    return std::ranges::any_of(table, [&](const TcpSocket& other) {
      return other.state == TcpSocket::State::listening && other.local_port == one.local_port &&
             other.of_ipv6 == one.of_ipv6 && holds(sockets, other.inode);
    });
  };
  std::vector<std::uint64_t> strangers;
  for (const TcpSocket& one : table) {
    if (one.state != TcpSocket::State::connected || !holds(sockets, one.inode)) continue;
    if (!listens_at(one)) continue;
    const TcpSocket* const other = other_end(table, one);
    // Closed: its peer is gone, and what it has sent is still to be read.
    if (other != nullptr && other->inode == 0) continue;
    const bool here = one.remote.is_loopback() ||
                      std::ranges::find(own_addresses, one.remote) != own_addresses.end();
    if (other != nullptr ? other->user != user : !here) strangers.push_back(one.inode);
  }
  return strangers;
}

MpirunGuard::MpirunGuard(pid_t launcher)
    : launcher_(launcher), process_(int(syscall(SYS_pidfd_open, launcher, 0))) {
  if (process_ < 0) refused_ = errno;
}

MpirunGuard::~MpirunGuard() {
  if (process_ >= 0) close(process_);
}

/// A descriptor of the launcher's socket, or -1. Its number may be another's by now.
int MpirunGuard::take(const OpenSockets& sockets, std::uint64_t inode) {
  const int copy = int(syscall(SYS_pidfd_getfd, process_, descriptor_of(sockets, inode), 0));
  // Others, such as EBADF, come of a socket or launcher that is gone.
  if (copy < 0 && (errno == EPERM || errno == ENOSYS)) refused_ = errno;
  struct stat status {};
  if (copy < 0 || (fstat(copy, &status) == 0 && status.st_ino == inode)) return copy;
  close(copy);
  return -1;
}

void MpirunGuard::look() {
  const auto now = Clock::now();
  if (process_ < 0 || now < next_) return;
  next_ = now + (now - started_ < kOpening ? kWhileOpening : kLater);
  const std::string name = std::to_string(launcher_);
  const OpenSockets sockets = open_sockets(name);
  if (sockets.empty()) return;
  const std::vector<TcpSocket> table = tcp_table(name);
  const std::vector<IpAddress> own = own_addresses();
  for (const TcpSocket& socket : table) {
    if (!socket.is_open_to_others() || !holds(sockets, socket.inode)) continue;
    if (std::ranges::find(guarded_, socket.inode) != guarded_.end()) continue;
    const int listener = take(sockets, socket.inode);
    if (listener < 0) continue;
    if (admit_only(listener, own)) guarded_.push_back(socket.inode);
    close(listener);
  }
  for (const std::uint64_t inode : strangers_at(table, sockets, geteuid(), own)) {
    const int connection = take(sockets, inode);
    if (connection < 0) continue;
    shutdown(connection, SHUT_RDWR);
    close(connection);
    next_ = now + kWhileOpening;  // who was cut off may come again at once
  }
  // A host with a million connections has a long table: a fifth of a core for it is enough.
  next_ = std::max(next_, Clock::now() + 4 * (Clock::now() - now));
}

int MpirunGuard::pause_ms() const {
  if (process_ < 0) return int(kLater.count());
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_ - Clock::now());
  return std::clamp(int(left.count()) + 1, 1, int(kLater.count()));
}

std::optional<std::string> MpirunGuard::refusal() {
  // Without a descriptor the launcher has ended (ESRCH), or the kernel does not know the call.
  if (warned_ || refused_ == 0 || refused_ == ESRCH) return std::nullopt;
  warned_ = true;
  return fmt::format(
      "warning: mpirun's port stays open to other users and hosts, since the kernel refused "
      "pidfd_getfd ({}): a container needs the capability SYS_PTRACE for it, or a network of its "
      "own (docs/security.md)",
      std::strerror(refused_));
}

}  // namespace lockstep

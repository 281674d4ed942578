// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/host/tcp_sockets.h"

namespace lockstep {

/// The TCP listeners that this process has open.
struct OwnListener {
  TcpSocket socket;
  int descriptor = -1;
};
std::vector<OwnListener> own_listeners();
/// Those of `now` that are not in `before`.
std::vector<OwnListener> opened_since(std::span<const OwnListener> before,
                                      std::vector<OwnListener> now);

/// Has the kernel drop what arrives at a listening socket from addresses that are neither
/// `allowed` nor loopback: for all others the port is closed. Connections that exist are not
/// touched. For listeners of libraries that bind to all interfaces and cannot be configured
/// otherwise. Needs no privilege. False where it cannot be done: too many addresses for the kernel
/// (about a thousand of IPv4), or the kernel refuses; then the socket is as it was.
bool admit_only(int listener, std::span<const IpAddress> allowed);

}  // namespace lockstep

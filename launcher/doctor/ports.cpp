// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <set>
#include <string>
#include <string_view>

#include "launcher/doctor/host.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kPorts = "ports";
constexpr const char* kTransports = "OMPI_MCA_btl";
constexpr const char* kCloseThem = "unset OMPI_MCA_btl (or: mpirun --mca btl ^tcp,ofi)";
constexpr std::string_view kMpirun =
    "mpirun keeps a port of its own on every interface, which a firewall may close";

/// "eth0 10.1.2.3, ib0 10.2.2.3"
std::string interfaces_text(const Environment& environment) {
  std::string text;
  for (const NetworkInterface& one : environment.interfaces())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one.name, to_string(one.address));
  return text.empty() ? "none but loopback" : text;
}

/// "port 1024", "ports 1024, 1025": those that other hosts reach; empty: none.
std::string open_ports(const Environment& environment) {
  std::set<std::uint16_t> ports;
  for (const TcpSocket& socket : environment.tcp_sockets())
    if (socket.is_open_to_others()) ports.insert(socket.local_port);
  std::string text;
  for (const std::uint16_t port : ports)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", port);
  return text.empty() ? text : (ports.size() == 1 ? "port " : "ports ") + text;
}

/// Whether the user's choice of transports has one that listens. Open MPI's list names what is
/// taken, or after ^ what is not.
bool user_opens_network(const Environment& environment) {
  const std::string chosen = environment.variable(kTransports);
  if (chosen.empty()) return false;
  const bool excludes = chosen[0] == '^';
  const bool named =
      ("," + chosen.substr(excludes ? 1 : 0) + ",").find(",tcp,") != std::string::npos;
  return named != excludes;
}

Finding ports_on_one_host(const Environment& environment, const std::string& open) {
  const std::string choice =
      environment.has(kTransports)
          ? fmt::format(" ({}={})", kTransports, environment.variable(kTransports))
          : std::string();
  if (!open.empty())
    return warn(
        kPorts,
        fmt::format("all ranks are on this host, and this one listens on TCP {}{}, on every "
                    "interface ({}): one byte of a stranger ends a run",
                    open,
                    choice,
                    interfaces_text(environment)),
        kCloseThem);
  if (!environment.mpi_runs && user_opens_network(environment))
    return warn(kPorts,
                fmt::format("ranks on this host would listen on TCP ports of every interface{}: {}",
                            choice,
                            interfaces_text(environment)),
                kCloseThem);
  return pass(kPorts, fmt::format("on one host ranks listen on no network interface; {}", kMpirun));
}

}  // namespace

Finding check_ports(const Environment& environment) {
  const std::string open = environment.mpi_runs ? open_ports(environment) : std::string();
  if (environment.ranks_here == environment.ranks) return ports_on_one_host(environment, open);
  std::string text = fmt::format(
      "on every interface ({}), to every host: mpirun and its daemons; the watchdogs of rank 0 "
      "and, "
      "of more than 33 ranks, of the first rank of each host, until all ranks have joined. Open "
      "MPI: {}, which the kernel closes to hosts that are not the "
      "job's",
      interfaces_text(environment),
      open.empty() ? "no TCP port" : "TCP " + open + " on this host");
  if (environment.device != "cpu" && environment.build.absent_because.empty()) {
    const std::string chosen = environment.variable("NCCL_SOCKET_IFNAME");
    text += fmt::format("; NCCL: ports on {}",
                        chosen.empty() ? "the interface that it chooses (NCCL_SOCKET_IFNAME)"
                                       : chosen + " (NCCL_SOCKET_IFNAME)");
  }
  return pass(kPorts, text);
}

}  // namespace lockstep::doctor

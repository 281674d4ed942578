// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/job_network.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <set>
#include <sstream>

#include "core/host/machine.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {
namespace {

/// No host has more addresses that matter, and what ranks tell has to stay short.
constexpr std::size_t kMaxAddressesOfARank = 256;
constexpr const char* kNoNetwork = "-";

}  // namespace

std::string describe_own_network() {
  const std::string network = network_id();
  std::string text = network.empty() ? kNoNetwork : fmt::format("{}/{}", machine_id(), network);
  std::size_t count = 0;
  for (const NetworkInterface& one : network_interfaces())
    if (count++ < kMaxAddressesOfARank) text += " " + to_string(one.address);
  return text;
}

JobNetwork job_network(std::span<const std::string> descriptions) {
  JobNetwork network;
  std::set<std::string> places;
  std::set<IpAddress> addresses;
  for (const std::string& text : descriptions) {
    std::istringstream words(text);
    std::string place, word;
    words >> place;
    places.insert(place);
    while (words >> word)
      if (const auto address = parse_ip_address(word)) addresses.insert(*address);
  }
  network.one_host = places.size() == 1 && *places.begin() != kNoNetwork;
  network.addresses.assign(addresses.begin(), addresses.end());
  return network;
}

JobNetwork gather_network(Communicator& communicator) {
  std::vector<std::string> descriptions;
  for (RanksWithText& hosts : gather_distinct_strings(communicator, describe_own_network()))
    descriptions.push_back(std::move(hosts.text));
  return job_network(descriptions);
}

std::string close_to_strangers(std::span<const OwnListener> listeners,
                               const JobNetwork& network,
                               const std::string& transports) {
  std::set<std::uint16_t> open_ports, unguarded_ports;  // one of IPv4 and one of IPv6 may be equal
  for (const OwnListener& one : listeners) {
    if (!one.socket.is_open_to_others()) continue;
    open_ports.insert(one.socket.local_port);
    if (!admit_only(one.descriptor, network.addresses))
      unguarded_ports.insert(one.socket.local_port);
  }
  const std::string open = fmt::format("{}", fmt::join(open_ports, ", "));
  const std::string unguarded = fmt::format("{}", fmt::join(unguarded_ports, ", "));
  if (network.one_host && !open.empty())
    return fmt::format(
        "all ranks run on this host, and MPI listens on TCP port {} all the same{}: {} can connect "
        "to it, and one byte ends the run. Leave OMPI_MCA_btl unset, or give mpirun --mca btl "
        "^tcp,ofi",
        open,
        transports.empty() ? std::string() : fmt::format(" (OMPI_MCA_btl={})", transports),
        unguarded.empty() ? "every user of this host" : "every host that reaches this one");
  if (!unguarded.empty())
    return fmt::format(
        "MPI listens on TCP port {} on all interfaces, and the kernel does not turn away other "
        "hosts: one byte from a stranger ends the run; let a firewall admit the job's hosts alone",
        unguarded);
  return {};
}

}  // namespace lockstep

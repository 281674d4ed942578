// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "core/host/ip_address.h"
#include "parallel/watchdog/listener_guard.h"

namespace lockstep {

/// Where the ranks of a job are on the network.
struct JobNetwork {
  std::vector<IpAddress> addresses;  ///< of all hosts; sorted, without loopback
  bool one_host = false;             ///< every rank reaches every other one by loopback
};

/// What one rank tells of itself: who shares its loopback, and its addresses.
std::string describe_own_network();
/// From the descriptions of all ranks, equal ones once or more often.
JobNetwork job_network(std::span<const std::string> descriptions);
/// Collective.
JobNetwork gather_network(Communicator& communicator);

/// Has the kernel turn away from `listeners`, those of MPI, whoever is on none of the job's hosts:
/// Open MPI 4.1 binds its ranks to all interfaces, whatever its settings, and one byte from a
/// stranger ends a job. Returns what people should know of ports that are open all the same; empty:
/// nothing. `transports` is what the user set as OMPI_MCA_btl.
std::string close_to_strangers(std::span<const OwnListener> listeners,
                               const JobNetwork& network,
                               const std::string& transports);

}  // namespace lockstep

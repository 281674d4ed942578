// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Hockney's model of a link: n bytes take latency_s + n / bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;
};

/// What connects ranks. An assumption, unless it was measured.
struct Network {
  std::string name;
  std::string words;  ///< what it stands for, for people
  Link inside;        ///< to a rank of the same host; each rank has bytes_per_s in each direction
  Link between;       ///< to other hosts; bytes_per_s in each direction is a host's: ranks share it
  int ranks_per_host = 1;
};

/// The networks that have names: nvlink, ib, ethernet. Data sheets, not measurements.
std::optional<Network> named_network(std::string_view name);

/// A processor's memory between the ranks of this host, as a place to begin a fit from: all ranks
/// on one host.
Network shared_memory_network();

}  // namespace lockstep

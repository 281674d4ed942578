// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "parallel/cost/network.h"

namespace lockstep::simulation {

/// A stretch of time in which a link moved bytes.
struct LinkUse {
  double begin = 0, end = 0;
  double bytes = 0;
};

/// What a member of a collective sends.
struct MemberBytes {
  int rank = 0;
  double inside = 0;   ///< to ranks of its host
  double between = 0;  ///< to other hosts
};

/// When links are free. A collective holds the links of its members, one after the other in the
/// order in which its members have all come: first come, first served, which moves as many bytes in
/// all as equal shares would. Each rank has a link to its host, each host one to the network:
/// n bytes hold a link for n / bytes_per_s, after the latency of the rounds.
class LinkTimes {
 public:
  LinkTimes(const Network& network, int ranks);

  const Network& network() const { return network_; }
  int host_of(int rank) const { return rank / network_.ranks_per_host; }
  int hosts() const { return int(between_.size()); }
  /// The end of a collective that begins at `begin` and takes `rounds` messages one after another.
  double move(double begin, double rounds, std::span<const MemberBytes> members);
  /// From now on what each host's link to the network does is kept.
  void keep_uses() { keeps_ = true; }
  const std::vector<std::vector<LinkUse>>& uses() const { return uses_; }

 private:
  Network network_;
  std::vector<double> inside_, between_;  // by rank, by host: free from
  std::vector<double> host_bytes_;        // scratch, zero between calls
  std::vector<int> touched_;
  bool keeps_ = false;
  std::vector<std::vector<LinkUse>> uses_;  // by host
};

}  // namespace lockstep::simulation

// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/link_times.h"

#include <algorithm>

namespace lockstep::simulation {

LinkTimes::LinkTimes(const Network& network, int ranks)
    : network_(network),
      inside_(std::size_t(ranks), 0),
      between_(std::size_t((ranks - 1) / network.ranks_per_host + 1), 0),
      host_bytes_(between_.size(), 0),
      uses_(between_.size()) {}

double LinkTimes::move(double begin, double rounds, std::span<const MemberBytes> members) {
  const int first_host = members.empty() ? 0 : host_of(members.front().rank);
  bool crosses = false;
  for (const MemberBytes& member : members) crosses |= host_of(member.rank) != first_host;
  const double latency =
      rounds * (crosses ? network_.between.latency_s : network_.inside.latency_s);
  const double start = begin + latency;
  double end = start;
  for (const MemberBytes& member : members) {
    if (member.inside > 0) {
      double& free = inside_[std::size_t(member.rank)];
      free = std::max(free, start) + member.inside / network_.inside.bytes_per_s;
      end = std::max(end, free);
    }
    if (member.between > 0) {
      const int host = host_of(member.rank);
      if (host_bytes_[std::size_t(host)] == 0) touched_.push_back(host);
      host_bytes_[std::size_t(host)] += member.between;
    }
  }
  for (const int host : touched_) {
    double& bytes = host_bytes_[std::size_t(host)];
    double& free = between_[std::size_t(host)];
    const double from = std::max(free, start);
    free = from + bytes / network_.between.bytes_per_s;
    end = std::max(end, free);
    if (keeps_) uses_[std::size_t(host)].push_back({from, free, bytes});
    bytes = 0;
  }
  touched_.clear();
  return end;
}

}  // namespace lockstep::simulation

// SPDX-License-Identifier: Apache-2.0
#include "parallel/seats.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unistd.h>

namespace lockstep {
namespace {

bool same_cpus(const Seat& a, const Seat& b) { return CPU_EQUAL(&a.cpus, &b.cpus); }

struct Host {
  std::vector<int> ranks;
  cpu_set_t cpus = {};
};

}  // namespace

std::vector<Seat> gather_seats(Communicator& communicator) {
  Seat own;
  gethostname(own.host, sizeof own.host - 1);
  sched_getaffinity(0, sizeof own.cpus, &own.cpus);  // without an answer: none
  own.host_cpus = int(sysconf(_SC_NPROCESSORS_ONLN));
  std::vector<Seat> seats(std::size_t(communicator.size()));
  communicator.all_gather(&own, seats.data(), sizeof own);
  return seats;
}

std::vector<CrowdedRanks> crowded_ranks(const std::vector<Seat>& seats) {
  std::map<std::string, Host> hosts;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    Host& host = hosts[seats[rank].host];
    host.ranks.push_back(int(rank));
    CPU_OR(&host.cpus, &host.cpus, &seats[rank].cpus);
  }
  std::vector<CrowdedRanks> groups;
  for (const auto& [name, host] : hosts) {
    const int cpus = CPU_COUNT(&host.cpus);
    if (cpus > 0 && int(host.ranks.size()) > cpus) {
      groups.push_back({name, host.ranks, cpus});
      continue;
    }
    std::vector<int> left = host.ranks;
    while (!left.empty()) {
      const Seat& seat = seats[std::size_t(left.front())];
      CrowdedRanks group{name, {}, CPU_COUNT(&seat.cpus)};
      std::erase_if(left, [&](int rank) {
        const bool same = same_cpus(seats[std::size_t(rank)], seat);
        if (same) group.ranks.push_back(rank);
        return same;
      });
      if (group.cpus > 0 && int(group.ranks.size()) > group.cpus) groups.push_back(group);
    }
  }
  return groups;
}

int free_cpus(const std::vector<Seat>& seats) {
  cpu_set_t cpus = {};
  int ranks = 0;
  for (const Seat& seat : seats) {
    if (std::string_view(seat.host) != seats.front().host) continue;
    CPU_OR(&cpus, &cpus, &seat.cpus);
    ++ranks;
  }
  return std::max(0, CPU_COUNT(&cpus) - ranks);
}

}  // namespace lockstep

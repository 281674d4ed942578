// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/rank_placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unistd.h>

#include "core/base/fixed_text.h"
#include "core/host/machine.h"

namespace lockstep {
namespace {

bool same_cpus(const RankPlacement& a, const RankPlacement& b) {
  return CPU_EQUAL(&a.cpus, &b.cpus);
}

struct Machine {
  std::string host;  ///< of its first rank
  std::vector<int> ranks;
  cpu_set_t cpus = {};
};

}  // namespace

std::vector<RankPlacement> gather_rank_placements(Communicator& communicator) {
  RankPlacement own;
  set_text(own.host, host_name());
  set_text(own.machine, machine_id());
  sched_getaffinity(0, sizeof own.cpus, &own.cpus);  // without an answer: none
  own.host_cpus = int(sysconf(_SC_NPROCESSORS_ONLN));
  std::vector<RankPlacement> seats(std::size_t(communicator.size()));
  communicator.all_gather(&own, seats.data(), sizeof own);
  return seats;
}

std::vector<OversubscribedRanks> oversubscribed_ranks(const std::vector<RankPlacement>& seats) {
  std::map<std::string, Machine> machines;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    Machine& machine = machines[seats[rank].machine];
    if (machine.ranks.empty()) machine.host = seats[rank].host;
    machine.ranks.push_back(int(rank));
    CPU_OR(&machine.cpus, &machine.cpus, &seats[rank].cpus);
  }
  std::vector<OversubscribedRanks> groups;
  for (const auto& [id, machine] : machines) {
    const int cpus = CPU_COUNT(&machine.cpus);
    if (cpus > 0 && int(machine.ranks.size()) > cpus) {
      groups.push_back({machine.host, machine.ranks, cpus});
      continue;
    }
    std::vector<int> left = machine.ranks;
    while (!left.empty()) {
      const RankPlacement& seat = seats[std::size_t(left.front())];
      OversubscribedRanks group{machine.host, {}, CPU_COUNT(&seat.cpus)};
      std::erase_if(left, [&](int rank) {
        const bool same = same_cpus(seats[std::size_t(rank)], seat);
        if (same) group.ranks.push_back(rank);
        return same;
      });
      if (group.cpus > 0 && int(group.ranks.size()) > group.cpus) groups.push_back(group);
    }
  }
  std::ranges::sort(
      groups, {}, [](const OversubscribedRanks& group) { return group.ranks.front(); });
  return groups;
}

int count_machines(const std::vector<RankPlacement>& seats) {
  std::set<std::string_view> machines;
  for (const RankPlacement& seat : seats) machines.insert(seat.machine);
  return int(machines.size());
}

int free_cpus(const std::vector<RankPlacement>& seats) {
  cpu_set_t cpus = {};
  int ranks = 0;
  for (const RankPlacement& seat : seats) {
    if (std::string_view(seat.machine) != seats.front().machine) continue;
    CPU_OR(&cpus, &cpus, &seat.cpus);
    ++ranks;
  }
  return std::max(0, CPU_COUNT(&cpus) - ranks);
}

}  // namespace lockstep

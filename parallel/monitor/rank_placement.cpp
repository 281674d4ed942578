// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/rank_placement.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <unistd.h>

#include "core/base/text/fixed_text.h"
#include "core/host/machine.h"
#include "parallel/comm/collective_strings.h"

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
  // Ranks of a host differ in their processors, and those of one place on several hosts in their
  // host: apart, many are equal.
  const std::string cpus(reinterpret_cast<const char*>(&own.cpus), sizeof own.cpus);
  own.cpus = {};
  const std::string host(reinterpret_cast<const char*>(&own), sizeof own);
  auto hosts = gather_distinct_strings(communicator, host);
  if (communicator.rank() > 0) hosts = std::vector<RanksWithText>();
  const auto processors = gather_distinct_strings(communicator, cpus);
  if (communicator.rank() > 0) return {};
  std::vector<RankPlacement> placements(std::size_t(communicator.size()));
  for (const auto& [bytes, ranks] : hosts)
    for (const int rank : ranks)
      std::memcpy(&placements[std::size_t(rank)], bytes.data(), sizeof own);
  for (const auto& [bytes, ranks] : processors)
    for (const int rank : ranks)
      std::memcpy(&placements[std::size_t(rank)].cpus, bytes.data(), sizeof own.cpus);
  return placements;
}

std::vector<OversubscribedRanks> oversubscribed_ranks(
    const std::vector<RankPlacement>& placements) {
  std::map<std::string, Machine> machines;
  for (std::size_t rank = 0; rank < placements.size(); ++rank) {
    Machine& machine = machines[placements[rank].machine];
    if (machine.ranks.empty()) machine.host = placements[rank].host;
    machine.ranks.push_back(int(rank));
    CPU_OR(&machine.cpus, &machine.cpus, &placements[rank].cpus);
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
      const RankPlacement& seat = placements[std::size_t(left.front())];
      OversubscribedRanks group{machine.host, {}, CPU_COUNT(&seat.cpus)};
      std::erase_if(left, [&](int rank) {
        const bool same = same_cpus(placements[std::size_t(rank)], seat);
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

int count_machines(const std::vector<RankPlacement>& placements) {
  std::set<std::string_view> machines;
  for (const RankPlacement& seat : placements) machines.insert(seat.machine);
  return int(machines.size());
}

int free_cpus(const std::vector<RankPlacement>& placements) {
  cpu_set_t cpus = {};
  int ranks = 0;
  for (const RankPlacement& seat : placements) {
    if (std::string_view(seat.machine) != placements.front().machine) continue;
    CPU_OR(&cpus, &cpus, &seat.cpus);
    ++ranks;
  }
  return std::max(0, CPU_COUNT(&cpus) - ranks);
}

}  // namespace lockstep

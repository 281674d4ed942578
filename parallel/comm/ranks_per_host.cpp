// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/ranks_per_host.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace lockstep {

int uniform_ranks_per_host(std::span<const int> hosts) {
  const std::size_t ranks = hosts.size();
  std::size_t here = 0;
  while (here < ranks && hosts[here] == hosts[0]) ++here;
  if (here == 0 || ranks % here != 0) return int(ranks);
  std::set<int> seen;
  for (std::size_t first = 0; first < ranks; first += here) {
    const auto same = [&](int host) { return host == hosts[first]; };
    if (!std::ranges::all_of(hosts.subspan(first, here), same)) return int(ranks);
    if (!seen.insert(hosts[first]).second) return int(ranks);
  }
  return int(here);
}

}  // namespace lockstep

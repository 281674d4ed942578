// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/connect_outcome.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep {

std::string format_blindness(std::span<const ConnectOutcome> outcomes,
                             const watch::HeartbeatTree& tree) {
  constexpr int kMaxNamedRanks = 8;
  const auto deaf = std::ranges::find(outcomes, 0, &ConnectOutcome::listens);
  if (deaf != outcomes.end())
    return fmt::format("rank {}: {}", deaf - outcomes.begin(), deaf->problem);
  std::string ranks, problem;
  int count = 0, parent = -1;
  for (int r = 1; r < int(outcomes.size()); ++r) {
    const ConnectOutcome& outcome = outcomes[std::size_t(r)];
    if (*outcome.problem == '\0') continue;
    if (parent < 0) {
      parent = tree.parent(r);
      problem = outcome.problem;
    }
    if (tree.parent(r) != parent) continue;
    if (count++ < kMaxNamedRanks) ranks += fmt::format("{}{}", count > 1 ? ", " : "", r);
  }
  if (count > kMaxNamedRanks) ranks += fmt::format(" and {} more", count - kMaxNamedRanks);
  return fmt::format("{} {} cannot reach rank {} over TCP ({})",
                     count > 1 ? "ranks" : "rank",
                     ranks,
                     parent,
                     problem);
}

}  // namespace lockstep

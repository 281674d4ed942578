// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <string>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// Where a rank runs.
struct RankPlacement {
  char host[64] = {};
  char machine[64] =
      {};               ///< machine_id(): hosts may have one name, and containers share processors
  cpu_set_t cpus = {};  ///< that it may use; none: unknown
  int host_cpus = 0;    ///< of its host, all of them
  int unused = 0;       ///< ranks compare all bytes: there is no padding
};
static_assert(sizeof(RankPlacement) == 2 * 64 + sizeof(cpu_set_t) + 2 * sizeof(int));

/// Of every rank, in rank order, on rank 0; empty on the others. Collective: see
/// gather_distinct_strings().
std::vector<RankPlacement> gather_rank_placements(Communicator& communicator);

/// Ranks of one machine that have fewer processors than ranks.
struct OversubscribedRanks {
  std::string host;  ///< of the first
  std::vector<int> ranks;
  int cpus = 0;
};

/// Groups of ranks that may use the very same processors, where those are too few for them; and
/// machines whose ranks are more than their processors together. By their first rank; no rank is in
/// two groups.
std::vector<OversubscribedRanks> oversubscribed_ranks(const std::vector<RankPlacement>& placements);

/// How many machines the ranks are on.
int count_machines(const std::vector<RankPlacement>& placements);

/// Processors of rank 0's machine beyond one for each of its ranks.
int free_cpus(const std::vector<RankPlacement>& placements);

}  // namespace lockstep

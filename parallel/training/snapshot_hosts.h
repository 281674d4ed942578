// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// Which ranks put snapshots into the same memory: those whose folder is the same one, the ranks of
/// a host. What containers are called does not matter.
struct SnapshotHosts {
  /// By rank: the lowest rank of its host. Ranks that cannot write are taken for those of one.
  std::vector<int> leaders;
  /// Why not all ranks can write into their folder: "rank 3 on node7: /dev/shm/x: ..."; empty: they
  /// can.
  std::string why_none;

  int count() const;
  bool several() const { return count() > 1; }
  /// The ranks of the host of `rank`, ascending.
  std::vector<int> ranks_on_host_of(int rank) const;
};

/// Collective; `folder` is this rank's.
SnapshotHosts find_snapshot_hosts(Communicator& ranks, const std::string& folder);

}  // namespace lockstep

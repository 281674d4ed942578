// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/exec/communicator.h"
#include "lockstep/rank_context.h"

namespace lockstep {

/// What a rank may still reserve on its device.
struct MemoryHeadroom {
  std::optional<std::uint64_t> bytes;  ///< nothing: its device does not say
  /// Of host memory, what is free in addition to `bytes` and stays so, for what the plan does not
  /// count: stacks, the heap's own bookkeeping, MPI's buffers, what libraries take when they first
  /// run. Who takes more than there is of it is killed; a device says no. Of a device, what
  /// collectives will take.
  std::uint64_t kept = 0;
  std::uint64_t total = 0;  ///< of the rank's device or container; 0: unknown
  int rank = 0;             ///< whose it is
  std::string host;         ///< its host
  int colocated_ranks = 1;  ///< ranks that its device's memory is shared by, in equal parts
  bool own_limit = false;   ///< a limit of that process alone is what leaves so little
};

/// Of this rank, which knows who shares its device. Collective over `context`. To be asked before
/// anything is reserved. `of_collectives`: see bytes_of_collectives(); 0 where the device is the
/// processor.
MemoryHeadroom memory_headroom(RankContext& context, std::uint64_t of_collectives = 0);

/// That of rank `rank`, where each has its `own`, on every rank. Collective.
MemoryHeadroom headroom_of_rank(Communicator& ranks, const MemoryHeadroom& own, int rank);

/// The smallest that a rank has, of the lowest such rank; an unknown one is larger than any other.
/// Equal on every rank. Collective.
MemoryHeadroom least_headroom(Communicator& ranks, const MemoryHeadroom& own);

/// "10.7 GiB of 11.8 GiB on rank 1 of node7, half of the memory that its 2 ranks share"
std::string to_string(const MemoryHeadroom& room);

}  // namespace lockstep

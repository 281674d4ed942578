// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/rank_context.h"

namespace lockstep {

/// What the rank that has the least may still reserve on its device: the room that every rank's
/// part has to fit, as all of them run the same plan.
struct MemoryRoom {
  std::optional<std::uint64_t> bytes;  ///< nothing: no rank's device says
  /// Of host memory, what is free beside `bytes` and stays so, for what no plan counts: stacks, the
  /// heap's own bookkeeping, MPI's buffers, what libraries take when they first run. Who takes more
  /// than there is of it is killed; a device says no.
  std::uint64_t kept = 0;
  std::uint64_t total = 0;  ///< of that rank's device or container; 0: unknown
  int rank = 0;             ///< whose it is
  std::string host;         ///< its host
  int sharers = 1;          ///< ranks that its device's memory is shared by, in equal parts
  bool own_limit = false;   ///< a limit of that process alone is what leaves so little
};

/// Collective over `context`; equal on every rank. To be asked before anything is reserved.
MemoryRoom memory_room(RankContext& context);

/// "10.7 GiB of 11.8 GiB on rank 1 of node7, a half of what its 2 ranks share"
std::string to_string(const MemoryRoom& room);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Identifies the memory that a rank's device uses. Ranks gather it, since hosts may share a name.
struct DeviceSharing {
  char machine[64] = {};  ///< machine_id()
  char uuid[64] = {};     ///< of a GPU; empty: not a GPU, or unknown
  char pool[128] = {};    ///< or cgroup; the end of a longer name, where cgroups differ

  /// Compares GPUs by UUID where that is known, since a sandbox may hide its machine; otherwise
  /// compares machine and pool.
  bool is_shared_with(const DeviceSharing& other) const;
};

DeviceSharing device_sharing_of(const DeviceMemory& memory);

/// Note [Readings of free memory]. What a rank reads as free on a device depends on what its
/// co-located ranks have allocated by then. So every rank reaches a barrier before any reads, and
/// none continues before all have read. Then equal runs read equal numbers, and the difference of
/// two readings, each divided by the count of co-located ranks, is what one rank has allocated in
/// between.

/// Free bytes of this rank's device, divided by the count of co-located ranks. 0: the device does
/// not report it. Collective over `ranks`, in host memory.
std::uint64_t free_part(Communicator& ranks, const Backend& backend);

/// Bytes that this rank uses on its GPU in addition to its `reserved` bytes: context, libraries,
/// kernels, and the memory of collectives. It is what is no longer free since the first co-located
/// rank started, less what they reserved, divided by their count. nullopt: the device does not
/// report it, or other processes have freed memory meanwhile. Collective as free_part().
std::optional<std::uint64_t> context_part(Communicator& ranks,
                                          const Backend& backend,
                                          std::uint64_t reserved);

}  // namespace lockstep

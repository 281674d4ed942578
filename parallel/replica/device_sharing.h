// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Identifies the memory that a rank's device uses: ranks share it whose keys are equal. XXH64 of a
/// GPU's UUID where that is known, since a sandbox may hide its machine; otherwise of `machine`
/// (machine_id(): hosts may share a name) and the pool or cgroup. Of N devices two have the same
/// key by chance with a probability of N^2 / 2^65: 3e-12 of 10,000.
std::uint64_t device_key(const DeviceMemory& memory, const std::string& machine);

/// Note [Readings of free memory]. What a rank reads as free on a device depends on what its
/// co-located ranks have allocated by then. So every rank reaches a barrier before any reads, and
/// none continues before all have read. Then equal runs read equal numbers, and the difference of
/// two readings, each divided by the count of co-located ranks, is what one rank has allocated in
/// between.

/// What the ranks that share this rank's device have read, itself included.
struct ColocatedReadings {
  DeviceMemory own;
  int ranks = 0;                          ///< how many they are
  std::optional<std::uint64_t> free;      ///< the smallest reading
  std::optional<std::uint64_t> at_start;  ///< free before the first of them started
  std::uint64_t reserved = 0;             ///< sum over them
};

/// Reads as Note [Readings of free memory] says. `reserved`: what this rank has reserved.
/// Collective over `ranks`, in host memory: each receives 32 bytes of every other.
ColocatedReadings read_together(Communicator& ranks,
                                const Backend& backend,
                                std::uint64_t reserved);

/// Free bytes of this rank's device, divided by the count of co-located ranks. 0: the device does
/// not report it. Collective over `ranks`, in host memory: nothing is read where no rank's device
/// does.
std::uint64_t free_part(Communicator& ranks, const Backend& backend);

/// Bytes that this rank uses on its GPU in addition to its `reserved` bytes: context, libraries,
/// kernels, and the memory of collectives. It is what is no longer free since the first co-located
/// rank started, less what they reserved, divided by their count. nullopt: the device does not
/// report it, or other processes have freed memory meanwhile. Collective as free_part().
std::optional<std::uint64_t> context_part(Communicator& ranks,
                                          const Backend& backend,
                                          std::uint64_t reserved);

}  // namespace lockstep

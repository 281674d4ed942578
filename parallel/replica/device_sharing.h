// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Whose memory a rank's device takes from. Ranks tell each other, since hosts may have one name.
struct DeviceSharing {
  char machine[64] = {};  ///< machine_id()
  char uuid[64] = {};     ///< of a GPU; empty: of none, or unknown
  char pool[128] = {};    ///< or group; of a longer name the end, in which groups differ

  /// Of a GPU by its UUID where that is known, since sandboxes hide which machine they are on;
  /// otherwise by machine and pool.
  bool is_shared_with(const DeviceSharing& other) const;
};

DeviceSharing device_sharing_of(const DeviceMemory& memory);

/// Note [Readings of free memory]. What ranks of one device read of it depends on what the others
/// have taken by then. So nobody reads before all have done what they were at, and nobody goes on
/// before all have read: equal runs read equal numbers, and the difference of two readings, each
/// divided by the ranks that share the device, is what one of them has taken in between.

/// Bytes that this rank's device has free, in equal parts for the ranks that share it. 0: it does
/// not say. Collective over `ranks`, in host memory.
std::uint64_t free_part(Communicator& ranks, const Backend& backend);

/// What of this rank's GPU is gone since before there was anything of it there, beside its
/// `reserved` bytes: its context, libraries, kernels and what collectives took; of ranks that share
/// the GPU one's equal part. Nothing: it does not say, or others have gone meanwhile. Collective as
/// free_part().
std::optional<std::uint64_t> context_part(Communicator& ranks,
                                          const Backend& backend,
                                          std::uint64_t reserved);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/communicator.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// Where ranks are on several hosts, and a run resumes from what is newest: copies the newest
/// snapshot in memory that any of the hosts has (MemorySnapshots) to those that have another or
/// none, as a new host has, or one whose ranks died while they wrote. It travels through the
/// communicator; where a host has no room or no memory for it, it becomes a checkpoint in
/// `options.folder`.
///
/// Snapshots of before a rollback, which a host that was away may have, are removed; damaged ones
/// count as none. Whether all ranks see the same snapshots now, or are on one host. Collective.
/// Throws EnvironmentError, on every rank alike: a host has no room, nor has the disk.
bool copy_newest_snapshot(Communicator& communicator, const CheckpointOptions& options);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/io/checkpoint/checkpoint_writer.h"
#include "core/step/saved/snapshot.h"
#include "lockstep/train_options.h"
#include "parallel/training/save_agreement.h"
#include "parallel/training/snapshot_hosts.h"
#include "parallel/training/snapshot_pace.h"

namespace lockstep {

/// A run's snapshots in memory (CheckpointOptions::snapshot_folder): who writes them, and when the
/// next one is wanted. For Checkpointing.
///
/// Where ranks are on several hosts, each host has whole snapshots in its own memory, so that one
/// host is enough to resume from: its ranks copy all of the state, each a part, and the lowest one
/// leads them in writing it, as rank 0 leads all ranks in writing a checkpoint. The bytes are equal
/// on all hosts. A host that is still writing when the next one is due puts that one off.
class MemorySnapshots {
 public:
  /// What copy() takes of the `member`-th of `ranks_of_host`.
  static std::size_t copy_bytes(const SavedArrays& saved, int ranks_of_host, int member);

  /// Collective. Reserves the copy of where there are several hosts.
  MemorySnapshots(Communicator& ranks,
                  const SaveAgreement& agreement,
                  const CheckpointOptions& options,
                  const SavedArrays& saved);

  /// Whether all ranks may meet for one.
  bool any() const { return any_; }
  /// Why there are none although the options name a folder; empty: there are, or none were wanted.
  const std::string& why_none() const { return why_none_; }
  /// Each host has its own. Otherwise they are written as checkpoints are, by the same ranks.
  bool by_host() const { return by_host_; }

  /// With by_host(): the part of the flat space that each rank copies, by rank; its copy; who
  /// writes save `number` with this rank.
  const std::vector<FlatRange>& parts() const { return parts_; }
  Snapshot& copy() { return copy_.value(); }
  std::size_t copy_bytes() const { return copy_bytes_; }
  io::CheckpointWriters writers(std::int64_t number) const;
  /// With by_host(): `content` of rank 0 has state and texts; those of the ranks that lead a host
  /// get them. False on all ranks: what rank 0 has cannot be written. Collective.
  bool share(io::CheckpointContent& content) const;

  io::CheckpointPlace place() const { return {.folder = folder_, .keep = 1, .in_memory = true}; }

  /// On rank 0: whether one is wanted now.
  bool is_due() const { return pace_ && pace_->is_due(MonotonicClock::now()); }
  /// On rank 0: one was copied, for which training stalled; it was written.
  void taken(double stall_seconds);
  void written(double seconds);
  /// On rank 0: a rank is still writing the one before: ranks have waited, as if that were the
  /// price.
  void put_off(double stall_seconds);
  /// On rank 0: after one that failed there are no more.
  void give_up() {
    given_up_ = true;
    pace_.reset();
  }
  bool given_up() const { return given_up_; }

  /// Removes all that are there. Why one could not be, on all ranks alike; empty: all are gone.
  /// Collective.
  std::string remove();

 private:
  std::string lack(const SavedArrays& saved) const;
  bool leads_host() const;
  void divide(const SavedArrays& saved);
  void share_texts(const CheckpointOptions& options);

  Communicator& ranks_;
  const SaveAgreement& agreement_;
  std::string folder_, why_none_;
  SnapshotHosts hosts_;
  bool any_ = false, by_host_ = false, given_up_ = false;
  std::vector<FlatRange> parts_;
  std::optional<Snapshot> copy_;
  std::size_t copy_bytes_ = 0;
  std::map<std::string, std::string> texts_;  // rank 0's, on ranks that lead a host
  std::optional<SnapshotPace> pace_;          // on rank 0, as long as they can be written
};

}  // namespace lockstep

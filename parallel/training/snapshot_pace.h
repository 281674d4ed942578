// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/host/monotonic_clock.h"

namespace lockstep {

/// When rank 0 wants the next snapshot in memory: see CheckpointOptions::snapshot_seconds.
class SnapshotPace {
 public:
  /// What snapshots may take of the time: training that stalls for the copy, and the thread that
  /// writes, as if it took a core from training, as it does where ranks compute on all of them.
  static constexpr double kShare = 0.005;
  /// Seconds until the first one, whose cost is not known, and the least between two.
  static constexpr double kMinSeconds = 1;

  using Time = MonotonicClock::time_point;

  /// `seconds`: between two; 0: by cost. Training begins at `now`.
  SnapshotPace(double seconds, Time now)
      : fixed_(seconds), interval_(seconds > 0 ? seconds : kMinSeconds), last_(now) {}

  bool is_due(Time now) const { return now >= due_at(); }
  /// When the next one is due.
  Time due_at() const;
  /// A copy has been taken `now`, for which training stalled.
  void taken(double stall_seconds, Time now);
  /// It has been written in `seconds`.
  void written(double seconds);
  /// Seconds between two.
  double interval() const { return interval_; }

 private:
  double fixed_, interval_, stall_ = 0;
  Time last_;
};

/// Why two snapshots of `bytes` (the newest, and the one that is written) have no room in
/// `folder`'s file system, or would take more than half of the memory that is free on this host; in
/// words. Nothing where they have.
/// What the folder holds already, of a start before this one, counts as room. `copies`: bytes of
/// memory that ranks of this host are still to reserve.
std::optional<std::string> lack_of_room(const std::string& folder,
                                        std::uint64_t bytes,
                                        std::uint64_t copies = 0);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "launcher/simulate/storm_outcomes.h"
#include "launcher/simulate/storm_request.h"
#include "launcher/simulate/storm_storage.h"
#include "parallel/training/save_timer.h"
#include "parallel/training/snapshot_pace.h"

namespace lockstep {

/// What a storm's job has saved: checkpoints on the disk, and the newest snapshot in the memory of
/// each host. SaveTimer and SnapshotPace say when each is due. Times are seconds of the storm.
class StormSaves {
 public:
  /// Refers to `request`.
  explicit StormSaves(const StormRequest& request);

  /// Steps of what the ranks would resume from: the newest on the disk or in memory; 0: nothing.
  std::int64_t resume_step() const;
  /// Of the newest checkpoint.
  std::int64_t disk_step() const { return on_disk_; }

  struct Read {
    double end = 0;
    bool failed = false;
  };
  /// Ranks that start at `begin` read what they resume from. A host without the snapshot gets it
  /// from another.
  Read read(double begin);

  /// Ranks train from `now` on, and all hosts have what they have resumed from.
  void begin(double now);
  /// Writes that have ended count.
  void finish(double now);
  /// Saves what is due after `step`. Returns the seconds that training stalls.
  double save(std::int64_t step, double now);
  /// Steps after `step`, which take `step_s` each, in which nothing is saved and no write ends; no
  /// more than until `until`.
  double quiet_steps(std::int64_t step, double now, double step_s, double until) const;
  /// The ranks have ended: what they were writing counts for nothing.
  void cut_off();
  /// Another host has taken the place of `host`: its memory is empty.
  void lose_memory(int host) { without_.insert(host); }

  std::int64_t checkpoints() const { return checkpoints_; }
  std::int64_t failed() const { return failed_; }
  std::int64_t cut_off_checkpoints() const { return cut_off_; }
  std::int64_t snapshots() const { return snapshots_; }
  /// What became of the storage's faults.
  std::vector<FaultOutcome> take_outcomes() { return outcomes_.take(); }

 private:
  struct Write {
    std::int64_t step = 0;
    double end = 0;
    bool fails = false;
  };
  bool is_in_memory() const { return int(without_.size()) < hosts_ && in_memory_ > on_disk_; }

  const StormRequest& r_;
  const int hosts_;
  const StormStorage storage_;
  StorageOutcomes outcomes_;
  std::optional<SaveTimer> timer_;
  std::optional<SnapshotPace> pace_;  // where there are snapshots
  double saved_at_ = 0;               // on the disk, or the begin of training
  std::int64_t on_disk_ = 0, in_memory_ = 0;
  std::set<int> without_;  // hosts that have no snapshot
  std::optional<Write> checkpoint_, snapshot_;
  double snapshot_write_s_ = 0;
  std::int64_t checkpoints_ = 0, failed_ = 0, cut_off_ = 0, snapshots_ = 0;
};

}  // namespace lockstep

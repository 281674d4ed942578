// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

/// The folder in memory (/dev/shm/lockstep-snapshots-XXXXXX, of this user alone) in which the ranks
/// of a supervised run on this host put snapshots (CheckpointOptions::snapshot_folder), so that a
/// restart loses no more than the steps since the newest. It outlives ranks, and a supervisor that
/// is killed: the run's folder names it in .snapshots, and it names the run's folder, so that the
/// next supervisor of that run finds it and no supervisor takes another run's.
class SnapshotFolder {
 public:
  /// The name in a run's folder.
  static constexpr const char* kLink = ".snapshots";

  /// For the run in `out`, whose supervisor holds the lock. `takes_over`: what a killed one has
  /// left is kept; otherwise it is removed. Removes folders that no run names any more. Never
  /// throws: where there is no such memory, why_none() says why.
  SnapshotFolder(const std::filesystem::path& out, bool takes_over);
  /// Removes it with all it holds.
  ~SnapshotFolder();
  SnapshotFolder(const SnapshotFolder&) = delete;
  SnapshotFolder& operator=(const SnapshotFolder&) = delete;

  /// Empty: there is none.
  const std::string& path() const { return path_; }
  const std::string& why_none() const { return why_none_; }
  /// It is one that a killed supervisor left.
  bool is_taken_over() const { return is_taken_over_; }

  /// Steps of the newest snapshot, by its name; -1: none.
  std::int64_t newest_step() const;
  /// Copies the newest snapshot that is whole into `checkpoints`, unless something as new is there.
  /// Its steps; nothing where none was copied. Throws EnvironmentError.
  std::optional<std::int64_t> save_to(const std::filesystem::path& checkpoints) const;

 private:
  void take_over();
  void create();

  std::filesystem::path out_;
  std::string path_, why_none_;
  bool is_taken_over_ = false;
  int lock_ = -1;
};

}  // namespace lockstep

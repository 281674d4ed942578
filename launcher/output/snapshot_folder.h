// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The folder in memory (/dev/shm/lockstep-snapshots-XXXXXX, of this user alone) in which the ranks
/// of a supervised run on this host put snapshots (CheckpointOptions::snapshot_folder), so that a
/// restart loses no more than the steps since the newest. It outlives ranks, and a supervisor that
/// is killed: the run's folder names it in .snapshots, and both hold the same random word, so that
/// the next supervisor of that run finds it, under whatever path, and none takes another run's.
class SnapshotFolder {
 public:
  /// The name in a run's folder.
  static constexpr const char* kLink = ".snapshots";

  /// For the run in `out`, whose supervisor holds the lock. `takes_over`: what an earlier one has
  /// left is kept; otherwise it is removed. Removes folders whose runs are gone. Never throws:
  /// where there is no such memory, why_none() says why.
  SnapshotFolder(const std::filesystem::path& out, bool takes_over);
  /// What holds a snapshot stays, for the next supervisor of the run.
  ~SnapshotFolder();
  SnapshotFolder(const SnapshotFolder&) = delete;
  SnapshotFolder& operator=(const SnapshotFolder&) = delete;

  /// Empty: there is none.
  const std::string& path() const { return path_; }
  const std::string& why_none() const { return why_none_; }
  /// It is one that an earlier supervisor left.
  bool is_taken_over() const { return is_taken_over_; }

  /// Steps of the newest snapshot, by its name; -1: none.
  std::int64_t newest_step() const;
  /// Of the run in the folder `run`, as far as its .snapshots says, from any process.
  static std::int64_t newest_step_of(const std::filesystem::path& run);
  /// Copies the newest snapshot that is whole into `checkpoints`, unless what is whole there is as
  /// new. Its steps; nothing where none was copied. Throws EnvironmentError.
  std::optional<std::int64_t> save_to(const std::filesystem::path& checkpoints) const;
  /// Removes what killed ranks have left of snapshots that they were writing. Never throws.
  void tidy() const;
  /// Removes all snapshots. Throws EnvironmentError.
  void clear() const;
  /// Removes the folder: all that it holds is on the disk, or of no more use.
  void remove();

 private:
  void take_over();
  void create();

  std::filesystem::path out_;
  std::string path_, why_none_;
  bool is_taken_over_ = false;
  int lock_ = -1;
};

/// A folder of snapshots in memory that no supervisor uses.
struct LeftSnapshots {
  enum class Run {
    ended,   ///< is there, and its next supervisor takes the snapshots over
    gone,    ///< its folder was removed, or has other snapshots: these are of no more use
    unknown  ///< cannot be told: perhaps its disk is not mounted
  };
  std::filesystem::path folder;
  std::filesystem::path out = {};  ///< of the run; empty: the folder does not say
  Run run = Run::unknown;
  std::int64_t step = -1;   ///< steps of the newest; -1: none
  std::uint64_t bytes = 0;  ///< of memory
};

/// All of this user's on this host, by name. Never throws.
std::vector<LeftSnapshots> left_snapshots();
/// Gives the memory back. False: a supervisor uses it by now.
bool remove_left(const LeftSnapshots& left);

}  // namespace lockstep

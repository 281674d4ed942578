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
/// Ranks on other hosts make one of the same name there: RankSnapshotFolder.
class SnapshotFolder {
 public:
  /// The name in a run's folder.
  static constexpr const char* kLink = ".snapshots";

  /// For the run in `out`, whose supervisor holds the lock. `takes_over`: what an earlier one has
  /// left is kept; otherwise it is removed. `several_hosts`: ranks may be on other hosts, so that
  /// this one tells nothing of whether there are snapshots. Removes folders whose runs are gone.
  /// Never throws: where there is no such memory, why_none() says why.
  SnapshotFolder(const std::filesystem::path& out, bool takes_over, bool several_hosts = false);
  /// What holds a snapshot, or may do so on another host, stays for the next supervisor of the run.
  ~SnapshotFolder();
  SnapshotFolder(const SnapshotFolder&) = delete;
  SnapshotFolder& operator=(const SnapshotFolder&) = delete;

  /// Empty: there is none.
  const std::string& path() const { return path_; }
  const std::string& why_none() const { return why_none_; }
  /// It is the one of an earlier supervisor.
  bool is_taken_over() const { return is_taken_over_; }

  /// Steps of the newest snapshot, by its name; -1: none.
  std::int64_t newest_step() const;
  /// Of the run in the folder `run`, as far as its .snapshots says, from any process.
  static std::int64_t newest_step_of(const std::filesystem::path& run);
  /// Copies the newest snapshot that is whole into `checkpoints`, unless what is whole there is as
  /// new. Its steps; nothing where none was copied. Throws EnvironmentError.
  std::optional<std::int64_t> save_to(const std::filesystem::path& checkpoints) const;
  /// Removes what killed ranks have left of snapshots that they were writing. Never throws.
  void tidy();
  /// Removes all snapshots. Throws EnvironmentError.
  void clear();
  /// Removes the folder: all that it holds is on the disk, or of no more use. Those of other hosts
  /// are then LeftSnapshots::Run::gone.
  void remove();

 private:
  void take_over();
  void create();

  std::filesystem::path out_;
  bool several_hosts_;
  std::string path_, why_none_;
  bool is_taken_over_ = false;
  int lock_ = -1;
};

/// The same folder for as long as a rank lives, on a host where it may be the first: it makes the
/// folder and locks it there.
class RankSnapshotFolder {
 public:
  /// `path`: as the supervisor of the run in `out` names it. Never throws: ranks agree on whether
  /// all have one (find_snapshot_hosts()).
  RankSnapshotFolder(const std::string& path, const std::filesystem::path& out);
  /// Where this rank has the lock: removes what holds no snapshot, or is of no more use.
  ~RankSnapshotFolder();
  RankSnapshotFolder(const RankSnapshotFolder&) = delete;
  RankSnapshotFolder& operator=(const RankSnapshotFolder&) = delete;

  /// The run has ended, or what it holds is on the disk.
  void set_saved() { is_saved_ = true; }

 private:
  std::filesystem::path path_;
  bool is_saved_ = false;
  int lock_ = -1;
};

/// A folder of snapshots in memory that no supervisor or rank uses.
struct LeftSnapshots {
  enum class Run {
    ended,   ///< is there, and its next supervisor takes the snapshots over
    gone,    ///< its folder was removed, or has other snapshots or none: these are of no more use
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
/// Gives the memory back. False: a supervisor or a rank uses it by now.
bool remove_left(const LeftSnapshots& left);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/launch/hosts.h"
#include "launcher/output/snapshot_folder.h"

namespace lockstep {

/// What `lockstep run` does about the snapshots in memory of its ranks. With several hosts it sees
/// those of this one alone, where there may be no ranks.
class RunSnapshots {
 public:
  /// `out`: the run's folder. `say` gets lines for people.
  RunSnapshots(std::string out, std::function<void(const std::string&)> say)
      : out_(std::move(out)), say_(std::move(say)) {}

  /// From now on there is a folder for them: SnapshotFolder's. True: it has some that an earlier
  /// supervisor left.
  bool open(bool takes_over, bool several_hosts);
  /// For the ranks; empty: there are none.
  std::string path() const { return folder_ ? folder_->path() : std::string(); }
  /// Steps of the newest on this host; -1: none.
  std::int64_t newest_step() const { return folder_ ? folder_->newest_step() : -1; }

  /// After each start: removes what killed ranks were writing.
  void tidy();
  /// Ranks were found to differ: damage that they notice now may be older than the newest snapshot,
  /// and all would load it.
  void drop();
  /// Before `ranks` ranks are started on `hosts`, filled in this order: where none is on this host,
  /// its newest snapshot becomes a checkpoint, as they do not see it.
  void save_where_ranks_do_not_see_it(const std::vector<Host>& hosts, int ranks);
  /// The run ends without having come to its end. Memory is given back: what only it holds goes to
  /// the disk, or stays. `saved`: the ranks have done so; `begun`: there were ranks that trained.
  void close(bool saved, bool begun);
  /// The run has come to its end.
  void remove();

 private:
  void save();

  std::string out_;
  std::function<void(const std::string&)> say_;
  bool several_hosts_ = false;
  std::optional<SnapshotFolder> folder_;
};

}  // namespace lockstep

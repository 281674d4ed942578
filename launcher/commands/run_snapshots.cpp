// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/run_snapshots.h"

#include <exception>
#include <filesystem>
#include <fmt/format.h>

#include "launcher/launch/host_probe.h"
#include "launcher/output/run_folder_files.h"

namespace lockstep {

bool RunSnapshots::open(bool takes_over, bool several_hosts) {
  several_hosts_ = several_hosts;
  folder_.emplace(out_, takes_over, several_hosts);
  if (!folder_->why_none().empty()) say_("no snapshots in memory: " + folder_->why_none());
  if (!folder_->is_taken_over() || newest_step() < 0) return false;
  say_(fmt::format("took over the snapshots in memory that an earlier one left: {}", path()));
  return true;
}

void RunSnapshots::tidy() {
  if (folder_) folder_->tidy();
}

void RunSnapshots::drop() {
  if (path().empty() || (!several_hosts_ && newest_step() < 0)) return;
  say_("snapshots in memory may hold what the ranks differ in: they are dropped");
  if (!several_hosts_) return folder_->clear();
  folder_->remove();  // ranks on other hosts remove theirs when they see that there is another
  folder_.emplace(out_, /*takes_over=*/false, /*several_hosts=*/true);
}

void RunSnapshots::save() {
  const auto step = folder_->save_to(std::filesystem::path(out_) / kCheckpointsFolder);
  if (step) say_(fmt::format("saved the snapshot of step {} as a checkpoint", *step));
}

void RunSnapshots::save_where_ranks_do_not_see_it(const std::vector<Host>& hosts, int ranks) {
  if (newest_step() < 0 || hosts.empty()) return;
  for (const Host& host : hosts) {
    if (ranks > 0 && is_this_host(host.name)) return;
    ranks -= host.slots;
  }
  try {
    save();
    folder_->clear();
  } catch (const std::exception& error) {
    say_(fmt::format("the snapshot in memory of this host could not be saved: {}", error.what()));
  }
}

void RunSnapshots::close(bool saved, bool begun) {
  if (path().empty()) return;
  try {
    save();
    const bool may_be_elsewhere = several_hosts_ && !saved && (begun || folder_->is_taken_over());
    if (!may_be_elsewhere) return folder_->remove();
    folder_->clear();
    say_(
        fmt::format("snapshots may be left in {} on the hosts of the ranks; the next lockstep run "
                    "with this --out takes over the newest",
                    path()));
  } catch (const std::exception& error) {
    say_(
        fmt::format("the snapshot in memory could not be saved: {}; it stays in {}, and the next "
                    "lockstep run with this --out takes it over",
                    error.what(),
                    path()));
  }
}

void RunSnapshots::remove() {
  if (folder_) folder_->remove();
}

}  // namespace lockstep

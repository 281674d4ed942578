// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/snapshot_hosts.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/base/parameter_names.h"
#include "core/host/machine.h"
#include "core/io/folder.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {
namespace {

/// Why this rank cannot write into `folder`; empty: it can, and `identity` is what no other folder
/// of a running machine has.
std::string look_at(const std::string& folder, std::string& identity) {
  struct stat facts {};
  if (folder.empty()) return "it has no folder for snapshots";
  if (stat(folder.c_str(), &facts) != 0)
    return fmt::format("{}: {}", as_written(folder), std::strerror(errno));
  if (!io::is_private(folder)) return as_written(folder) + " is open to other users";
  identity = fmt::format("{}:{}:{}", machine_id(), facts.st_dev, facts.st_ino);
  return {};
}

}  // namespace

int SnapshotHosts::count() const {
  int hosts = 0;
  for (std::size_t r = 0; r < leaders.size(); ++r) hosts += leaders[r] == int(r) ? 1 : 0;
  return hosts;
}

std::vector<int> SnapshotHosts::ranks_on_host_of(int rank) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < leaders.size(); ++r)
    if (leaders[r] == leaders[std::size_t(rank)]) ranks.push_back(int(r));
  return ranks;
}

SnapshotHosts find_snapshot_hosts(Communicator& ranks, const std::string& folder) {
  SnapshotHosts hosts{.leaders = std::vector<int>(std::size_t(ranks.size()), 0), .why_none = {}};
  std::string identity;
  const std::string reason = look_at(folder, identity);
  if (ranks.size() == 1) {
    hosts.why_none = reason;
    return hosts;
  }
  const FirstText first = first_text(
      ranks,
      reason.empty() ? reason
                     : fmt::format("rank {} on {}: {}", ranks.rank(), host_name(), reason));
  hosts.why_none = first.text;
  for (const RanksWithText& host : gather_distinct_strings(ranks, identity))
    for (const int rank : host.ranks) hosts.leaders[std::size_t(rank)] = host.ranks.front();
  return hosts;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::simulation {

/// What goes wrong in a simulated run.
enum class FaultKind : std::uint8_t {
  rank_dies,     ///< its process ends, and its connections close
  host_dies,     ///< all its ranks fall silent at once, as without power: no connection closes
  rank_freezes,  ///< no thread of it runs, the watchdog's included
  host_freezes,  ///< so on all ranks of a host, as where a virtual machine is stopped
  rank_hangs,    ///< makes no progress, while its watchdog still beats: a GPU that does not return
  rank_slows,    ///< computes `factor` times as long
  host_slows,    ///< so on all ranks of a host
  host_is_cut,   ///< nothing passes between the host and others; afterwards what was sent arrives
  storage_stalls,  ///< what is written or read meanwhile waits
  storage_fails    ///< what is being written or read meanwhile fails
};
inline constexpr std::size_t kFaultKinds = std::size_t(FaultKind::storage_fails) + 1;

/// "rank-dies"
std::string_view name_of(FaultKind kind);
std::optional<FaultKind> fault_kind(std::string_view name);

/// Who is hit.
enum class FaultScope : std::uint8_t { rank, host, storage };
FaultScope scope_of(FaultKind kind);
/// Whether ranks wait for the one that is hit until it is well or the run ends.
bool halts(FaultKind kind);

struct PlantedFault {
  static constexpr double kForEver = std::numeric_limits<double>::infinity();

  double at = 0;  ///< seconds
  FaultKind kind{};
  int who = 0;                ///< rank or host, from 0
  double seconds = kForEver;  ///< how long it lasts; a death lasts
  double factor = 1;          ///< of what slows

  double end() const { return at + seconds; }
};

/// The ranks that are hit, of `ranks` in hosts of `ranks_per_host`; none by storage.
std::vector<int> ranks_hit(const PlantedFault& fault, int ranks, int ranks_per_host);
/// Whether it takes away the host that `lockstep run` is taken to stand on, that of rank 0.
bool ends_launcher(const PlantedFault& fault);
/// "rank-dies 17", "storage-stalls"
std::string to_string(const PlantedFault& fault);

}  // namespace lockstep::simulation

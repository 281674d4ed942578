// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/planted_fault.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace lockstep::simulation {
namespace {

constexpr std::array<std::string_view, kFaultKinds> kFaultNames{"rank-dies",
                                                                "host-dies",
                                                                "rank-freezes",
                                                                "host-freezes",
                                                                "rank-hangs",
                                                                "rank-slows",
                                                                "host-slows",
                                                                "host-is-cut",
                                                                "storage-stalls",
                                                                "storage-fails"};

}  // namespace

std::string_view name_of(FaultKind kind) { return kFaultNames[std::size_t(kind)]; }

std::optional<FaultKind> fault_kind(std::string_view name) {
  const auto found = std::ranges::find(kFaultNames, name);
  if (found == kFaultNames.end()) return std::nullopt;
  return FaultKind(found - kFaultNames.begin());
}

FaultScope scope_of(FaultKind kind) {
  const std::string_view name = name_of(kind);
  if (name.starts_with("rank")) return FaultScope::rank;
  return name.starts_with("host") ? FaultScope::host : FaultScope::storage;
}

bool halts(FaultKind kind) {
  switch (kind) {
    case FaultKind::rank_slows:
    case FaultKind::host_slows:
    case FaultKind::storage_stalls:
    case FaultKind::storage_fails:
      return false;
    default:
      return true;
  }
}

std::vector<int> ranks_hit(const PlantedFault& fault, int ranks, int ranks_per_host) {
  std::vector<int> hit;
  if (scope_of(fault.kind) == FaultScope::rank) hit.push_back(fault.who);
  if (scope_of(fault.kind) == FaultScope::host)
    for (int r = fault.who * ranks_per_host; r < std::min(ranks, (fault.who + 1) * ranks_per_host);
         ++r)
      hit.push_back(r);
  return hit;
}

bool ends_launcher(const PlantedFault& fault) {
  return fault.kind == FaultKind::host_dies && fault.who == 0;
}

std::string to_string(const PlantedFault& fault) {
  if (scope_of(fault.kind) == FaultScope::storage) return std::string(name_of(fault.kind));
  return fmt::format("{} {}", name_of(fault.kind), fault.who);
}

}  // namespace lockstep::simulation

// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/storm_storage.h"

#include <algorithm>

namespace lockstep {

using simulation::FaultKind;
using simulation::PlantedFault;

StormStorage::StormStorage(std::span<const PlantedFault> faults, double bytes_per_s)
    : bytes_per_s_(bytes_per_s) {
  for (const PlantedFault& fault : faults)
    if (simulation::scope_of(fault.kind) == simulation::FaultScope::storage)
      faults_.push_back(fault);
}

StormStorage::Transfer StormStorage::move(double begin, double bytes) const {
  Transfer transfer{.end = begin + bytes / bytes_per_s_, .stalled_by = {}, .failed_by = {}};
  double since = begin;  // of which stalls have been counted
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const PlantedFault& fault = faults_[i];
    if (fault.at >= transfer.end || fault.end() <= since) continue;
    const double from = std::max(fault.at, since);
    if (fault.kind == FaultKind::storage_fails) {
      transfer.end = from;
      transfer.failed_by = i;
      return transfer;
    }
    transfer.end += fault.end() - from;
    transfer.stalled_s += fault.end() - from;
    transfer.stalled_by = i;
    since = fault.end();
  }
  return transfer;
}

}  // namespace lockstep

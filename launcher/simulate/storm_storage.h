// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "parallel/simulation/planted_fault.h"

namespace lockstep {

/// The storage of a storm's job: a bandwidth for all ranks together, and times when it stalls or
/// fails.
class StormStorage {
 public:
  /// Of `faults` those of storage. `bytes_per_s` > 0.
  StormStorage(std::span<const simulation::PlantedFault> faults, double bytes_per_s);

  struct Transfer {
    double end = 0;
    double stalled_s = 0;
    std::optional<std::size_t> stalled_by, failed_by;  ///< by number among faults()
  };
  /// Writes or reads `bytes` from `begin` on.
  Transfer move(double begin, double bytes) const;
  const std::vector<simulation::PlantedFault>& faults() const { return faults_; }

 private:
  std::vector<simulation::PlantedFault> faults_;
  double bytes_per_s_;
};

}  // namespace lockstep

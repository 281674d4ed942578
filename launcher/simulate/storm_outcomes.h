// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/simulate/storm_request.h"
#include "launcher/simulate/storm_storage.h"
#include "parallel/simulation/fault_detection.h"

namespace lockstep {

/// Puts what watchdogs `found` on the faults that were met meanwhile, `outcomes` in their order.
/// The fault that the verdict is of has been named; others have only ended with it. A verdict that
/// is of none is put on the first, as wrong and without a time of detection.
void note_detection(const simulation::Detection& found, std::span<FaultOutcome> outcomes);

/// What became of the faults of a storage.
class StorageOutcomes {
 public:
  explicit StorageOutcomes(std::span<const simulation::PlantedFault> faults);
  /// Only the first kNotes of a fault are kept as words.
  void note(const StormStorage::Transfer& transfer, const std::string& what, const char* met_in);
  std::vector<FaultOutcome> take();

 private:
  static constexpr int kNotes = 3;
  std::vector<FaultOutcome> outcomes_;
  std::vector<int> notes_;  // by outcome
};

}  // namespace lockstep

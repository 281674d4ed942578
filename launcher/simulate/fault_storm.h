// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/simulate/storm_request.h"

namespace lockstep {

struct StormResult {
  std::vector<FaultOutcome> faults;
  double seconds = 0;
  std::int64_t kept_steps = 0;  ///< in the final run
  std::int64_t lost_steps = 0;  ///< done, and then done again or never
  double goodput = 0;           ///< share of the time that kept_steps take undisturbed
  int restarts = 0;
  std::string refused;  ///< why there was no further restart, and when; empty: there was
  /// Checkpoints: whole; failed; cut off.
  std::int64_t saves = 0, failed_saves = 0, lost_saves = 0;
  std::int64_t snapshots = 0;  ///< whole ones in memory
  int wrongly_named = 0;
  double median_detection_s = 0, longest_detection_s = 0;  ///< of faults that ended the ranks
  std::size_t detected = 0;                                ///< such faults
};

StormResult run_storm(const StormRequest& request);

}  // namespace lockstep

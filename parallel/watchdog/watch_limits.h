// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Every so often a rank tells where it stands.
inline constexpr double kBeatSeconds = 0.25;

/// How long a rank may be silent, or alive without progress, in seconds. 0: for ever. Where all
/// four are, ranks do not watch each other at all.
struct WatchLimits {
  double training_s = 10;    ///< also the longest silence of a rank's watchdog, in every stage
  double start_s = 600;      ///< until the first step is done
  double evaluation_s = 60;  ///< at least what training is allowed
  double saving_s = 600;     ///< a save that training waits for: the last one
  double join_s = 60;        ///< until all ranks have come

  bool any() const { return training_s > 0 || start_s > 0 || evaluation_s > 0 || saving_s > 0; }
};

}  // namespace lockstep

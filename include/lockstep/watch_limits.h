// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// How long a rank may be silent, or alive without progress, in seconds, before it ends the job
/// with ExitCode::collective_timeout. 0: for ever. Where the first four are 0, ranks do not watch
/// each other at all.
struct WatchLimits {
  double training_s =
      10;                ///< between steps; also the longest that a rank may not be heard of at all
  double start_s = 600;  ///< until the first step is done
  double evaluation_s = 60;  ///< at least what training is allowed
  double saving_s = 600;     ///< a save that training waits for: the last one
  double join_s = 60;        ///< until all ranks have come

  bool any() const { return training_s > 0 || start_s > 0 || evaluation_s > 0 || saving_s > 0; }
};

}  // namespace lockstep

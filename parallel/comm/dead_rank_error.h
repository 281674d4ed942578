// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/error.h"

namespace lockstep {

/// A message that failed since another rank is dead, as an MPI with ULFM tells, or the watchdog of
/// ranks on GPUs. Its process ends
/// with ExitCode::collective_timeout, as where a watchdog has seen the death.
class DeadRankError : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace lockstep

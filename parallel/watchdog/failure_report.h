// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// The message about `verdict` on a rank with the last beat at `note`. Without host,
/// process and who has seen it.
FaultRecord describe(const Verdict& verdict, const PositionNote& note);

}  // namespace lockstep

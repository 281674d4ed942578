// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// What people are told of `verdict` on a rank that was last heard of at `note`. Without host,
/// process and who has seen it.
FaultRecord describe(const Verdict& verdict, const PositionNote& note);

}  // namespace lockstep

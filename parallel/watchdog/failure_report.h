// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/fault_record.h"

namespace lockstep {

/// The message about `verdict` on a rank with the last beat at `note`. Without host,
/// process and who has seen it.
FaultRecord describe(const Verdict& verdict, const PositionNote& note);

/// Whether `text` has the message of a describe() about a rank that was not heard of any more.
bool tells_of_silence(std::string_view text);

}  // namespace lockstep

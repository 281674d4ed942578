// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "core/base/blocked_signals.h"

namespace lockstep {

/// A thread that no signal is delivered to but the seven that BlockedSignals leaves: others that
/// are directed at the process go to another thread. Throws std::system_error.
template <typename Body>
std::thread start_signal_masked_thread(Body body) {
  const BlockedSignals inherited;
  return std::thread(body);
}

}  // namespace lockstep

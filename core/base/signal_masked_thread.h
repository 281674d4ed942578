// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "core/base/blocked_signals.h"

namespace lockstep {

/// A thread that no signal from outside is delivered to. Throws std::system_error.
template <typename Body>
std::thread start_signal_masked_thread(Body body) {
  const BlockedSignals inherited;
  return std::thread(body);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "core/host/monotonic_clock.h"

namespace lockstep {

/// Times what comes one after the other with one reading of the clock in between.
class LapTimer {
 public:
  using Clock = MonotonicClock;

  void start() { at_ = Clock::now(); }
  /// Seconds since start() or the lap before; the next one begins here.
  double lap() {
    const Clock::time_point begin = at_;
    start();
    return std::chrono::duration<double>(at_ - begin).count();
  }
  /// Where the lap that is open begins.
  Clock::time_point at() const { return at_; }

 private:
  Clock::time_point at_{};
};

}  // namespace lockstep

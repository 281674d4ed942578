// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "core/host/monotonic_clock.h"

namespace lockstep {

/// When rank 0 wants a periodic checkpoint, as CheckpointOptions::every_steps and every_seconds
/// say. What is due stays due until a snapshot was taken.
class SaveTimer {
 public:
  using Time = MonotonicClock::time_point;

  SaveTimer(std::int64_t every_steps, double every_seconds, Time now)
      : every_steps_(every_steps), every_seconds_(every_seconds), last_(now) {}

  bool periodic() const { return every_steps_ > 0 || every_seconds_ > 0; }
  /// Whether every rank knows without being told that a save is due after `step`.
  bool scheduled(std::int64_t step) const { return every_steps_ > 0 && step % every_steps_ == 0; }
  /// After each step.
  bool due(std::int64_t step, Time now) {
    const std::chrono::duration<double> since = now - last_;
    due_ |= scheduled(step) || (every_seconds_ > 0 && since.count() >= every_seconds_);
    return due_;
  }
  /// A snapshot was or is being taken.
  void taken(Time now) {
    due_ = false;
    last_ = now;
  }
  /// Nothing is due any more.
  void forget() { due_ = false; }

 private:
  std::int64_t every_steps_;
  double every_seconds_;
  Time last_;
  bool due_ = false;
};

}  // namespace lockstep

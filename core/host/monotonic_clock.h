// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace lockstep {

/// The clock by which training measures itself: std::chrono::steady_clock, unless a simulation
/// keeps the time of the rank that runs.
struct MonotonicClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  using Source = time_point (*)();
  static time_point now() {
    const Source source = source_.load(std::memory_order_relaxed);
    return source == nullptr ? std::chrono::steady_clock::now() : source();
  }
  /// Null: steady_clock. While no other thread trains.
  static void set_source(Source source) { source_.store(source, std::memory_order_relaxed); }

 private:
  static inline std::atomic<Source> source_ = nullptr;
};

}  // namespace lockstep

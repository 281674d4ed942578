// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/heap_meter.h"

namespace lockstep::fuzz {

/// What both heap meters count with; nothing here allocates.
class HeapCount {
 public:
  void add(std::size_t bytes) {
    const std::int64_t now = live_.fetch_add(std::int64_t(bytes)) + std::int64_t(bytes);
    std::int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void remove(std::size_t bytes) { live_.fetch_sub(std::int64_t(bytes)); }
  void start() {
    base_.store(live_.load());
    peak_.store(live_.load());
  }
  std::int64_t peak() const { return peak_.load() - base_.load(); }

 private:
  std::atomic<std::int64_t> live_{0}, peak_{0}, base_{0};
};

}  // namespace lockstep::fuzz

// SPDX-License-Identifier: Apache-2.0
// What one reading of the clock and one record of the profiler take, in nanoseconds, as JSON: the
// shortest of 15 timings of a million. For observation_cost.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "core/profile/profiler.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTimings = 15, kCalls = 1'000'000;

template <typename Call>
double nanoseconds(Call call) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int timing = 0; timing < kTimings; ++timing) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> all = Clock::now() - begin;
    shortest = std::min(shortest, all.count() / kCalls);
  }
  return shortest;
}

}  // namespace

int main() {
  Clock::time_point now;
  const double clock = nanoseconds([&] { now = Clock::now(); });
  lockstep::Profiler profiler(0, 0);
  const int work = profiler.declare({.name = "work", .path = "work", .cost = {}});
  const double record = nanoseconds([&] { lockstep::ProfileScope scope(&profiler, work); });
  if (now < Clock::time_point()) return 1;  // so that the readings are not skipped
  std::printf("{\"clock_ns\": %.2f, \"record_ns\": %.2f}\n", clock, record);
}

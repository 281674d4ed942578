// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/watchdog/watchdog.h"
#include "tests/parallel/forked_ranks.h"

namespace lockstep {

/// Flags of the SharedMemory of forked ranks that watch each other.
constexpr int kReady = 0, kStop = 1, kSpoken = 2, kRecords = 3, kCulprit = 4, kMarks = 5,
              kBlind = 6, kPort = 7;

inline const WatchLimits kOneSecond{
    .training_s = 1, .start_s = 1, .evaluation_s = 1, .saving_s = 1};
// Where no alarm is expected, a busy machine may let a rank wait for long.
inline const WatchLimits kThreeSeconds{
    .training_s = 3, .start_s = 3, .evaluation_s = 3, .saving_s = 3};

/// Tells the test, over the shared memory, what the last words of this rank were.
inline Watchdog::FailureHandler failure_handler(testing::SharedMemory& memory) {
  return [&memory](const FaultRecord& record, bool speaks) {
    ++memory.flags[kRecords];
    memory.flags[kCulprit] = record.rank;
    if (speaks) ++memory.flags[kSpoken];
  };
}

}  // namespace lockstep

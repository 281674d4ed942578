// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Seconds since construction, of this rank.
struct StepTimes {
  /// The parts of a TimeBreakdown with these names; in training alone.
  double data = 0, copy = 0, forward = 0, backward = 0, exposed_communication = 0, optimizer = 0,
         device_wait = 0;
  double moving_exchanges = 0;  ///< polling for their progress, part of backward's seconds
  /// Of whole micro-batches: loading, and forward with backward without moving_exchanges; and the
  /// counts of micro-batches they are summed over. Compute of replayed graphs is not counted.
  double whole_loading = 0, whole_compute = 0;
  std::int64_t whole_loaded = 0, whole_computed = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Seconds since construction, of this rank.
struct StepTimes {
  /// As the LedgerParts of these names; in training alone.
  double data = 0, copy = 0, forward = 0, backward = 0, exposed_communication = 0, optimizer = 0,
         device_wait = 0;
  double moving_exchanges = 0;  ///< along, among the seconds of backward
  /// Of whole micro-batches: getting samples, and forward with backward without what moves
  /// exchanges along; and how many those are of, which for the latter are none whose work a graph
  /// does.
  double whole_loading = 0, whole_compute = 0;
  std::int64_t whole_loaded = 0, whole_computed = 0;
};

}  // namespace lockstep

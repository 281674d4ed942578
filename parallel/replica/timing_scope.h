// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"

namespace lockstep {

/// Algorithms are timed for whole micro-batches alone: what an epoch or an evaluation leaves for a
/// last one is too little of a run to be worth the seconds. Backend::time_algorithms() is as before
/// when this ends.
class TimingScope {
 public:
  explicit TimingScope(Backend& backend) : backend_(backend), timed_(backend.times_algorithms()) {}
  ~TimingScope() { backend_.time_algorithms(timed_); }
  TimingScope(const TimingScope&) = delete;
  TimingScope& operator=(const TimingScope&) = delete;

  /// Kernels made from now on are of a whole micro-batch, or not.
  void enter(bool whole) { backend_.time_algorithms(timed_ && whole); }

 private:
  Backend& backend_;
  bool timed_;
};

}  // namespace lockstep

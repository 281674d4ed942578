// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/mpirun_hang_detector.h"

#include "launcher/processes/process_table.h"

namespace lockstep {

bool MpirunHangDetector::hangs() {
  const auto now = Clock::now();
  if (now - looked_ < std::chrono::milliseconds(500)) return false;
  looked_ = now;
  const bool children = has_living_children(launcher_);
  had_children_ |= children;
  if (children || !waits_for_lock(launcher_)) active_ = now;
  const double patience = had_children_ ? patience_s_ : kUnseen * patience_s_;
  return std::chrono::duration<double>(now - active_).count() >= patience;
}

}  // namespace lockstep

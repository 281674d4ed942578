// SPDX-License-Identifier: Apache-2.0
#include "launcher/idle_launcher.h"

#include "launcher/process_table.h"

namespace lockstep {

bool IdleLauncher::hangs() {
  const auto now = Clock::now();
  if (now - looked_ < std::chrono::milliseconds(500)) return false;
  looked_ = now;
  const bool children = has_living_children(launcher_);
  had_children_ |= children;
  if (children || !waits_for_lock(launcher_)) active_ = now;
  return had_children_ && std::chrono::duration<double>(now - active_).count() >= patience_s_;
}

}  // namespace lockstep

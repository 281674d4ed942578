// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <sys/types.h>

namespace lockstep {

/// Notices a launcher that lives on although its children, the ranks of this host, have ended:
/// mpirun has been seen to wait for ever for a lock in its own clean-up (Open MPI 4.1.4, in
/// PMIx_server_finalize, after the death of a rank that was starting).
class IdleLauncher {
 public:
  static constexpr double kPatienceSeconds = 10;

  explicit IdleLauncher(pid_t launcher) : launcher_(launcher) {}
  /// Whether it has had children, and none alive for kPatienceSeconds. Looks once a second. Never
  /// where the kernel does not list children, or the launcher starts ranks elsewhere only.
  bool hangs();

 private:
  using Clock = std::chrono::steady_clock;

  pid_t launcher_;
  bool had_children_ = false;
  Clock::time_point looked_{}, alive_ = Clock::now();
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/heartbeat_transport.h"

namespace lockstep::watch {

/// Whether a debugger holds a process of this machine.
bool is_traced(std::int64_t process);

/// What a watchdog does to the processes of ranks on its own machine. For its thread.
class RankProcesses {
 public:
  /// `peers` outlives it.
  explicit RankProcesses(const Peers& peers) : peers_(peers) {}

  bool is_traced(int rank) const;

  /// Kills the process of a frozen rank, so that the others can continue without it: it might wake
  /// and write into their memory. Where rank 0 is frozen, all of its children see that, and the
  /// others wait for the one that `speaks`, as their record would be that of a death.
  enum class Kill : std::uint8_t {
    done,
    waits,      ///< for the one that speaks, or for the kernel
    impossible  ///< on another machine, refused, or killed seconds ago and still there
  };
  Kill kill_frozen(const Verdict& verdict, bool speaks, double now);

 private:
  const Peers& peers_;
  int killed_ = -1;
  double at_ = 0;  // when
};

}  // namespace lockstep::watch

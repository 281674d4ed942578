// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/heartbeat_transport.h"

namespace lockstep::watch {

/// Whether a debugger holds a process of this machine.
bool is_traced(std::int64_t process);

/// What a watchdog does to the processes of ranks on its own machine. For its thread.
class RankProcesses {
 public:
  /// `peers` outlives it.
  explicit RankProcesses(Peers& peers) : peers_(peers) {}

  bool is_traced(int rank) const;

  /// Kills the process of a frozen rank, so that the others can continue without it: it might wake
  /// and write into their memory. Its connection then closes, which is judged as a death. Where
  /// rank 0 is frozen, all of its children see that, and leave it to the one that `speaks` for a
  /// while; unless some are on other machines. False: that cannot be done or was without effect,
  /// and the rank is as frozen as ever.
  bool end_frozen(const Verdict& verdict, bool speaks, double now);
  /// Adds to the verdict of a death that this rank has brought it about, and why.
  void explain(Verdict& death) const;
  /// To be called before this rank ends because `ended` has: on each machine the lowest of the
  /// other ranks closes its connections, so that none waits for it, and ends 50 ms later.
  void let_others_end_first(int ended);

 private:
  Peers& peers_;
  std::optional<Verdict> killed_;  // for what
  double killed_at_ = 0;
};

}  // namespace lockstep::watch

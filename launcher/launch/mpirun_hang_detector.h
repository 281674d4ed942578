// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <sys/types.h>

namespace lockstep {

/// Notices a launcher that lives on although its children, the ranks of this host, have ended:
/// mpirun has been seen to wait for ever for a lock in its own clean-up (Open MPI 4.1.4, in
/// PMIx_server_finalize, after the death of a rank that was starting). One that waits for anything
/// else, for who reads its output or for other hosts, is left alone.
class MpirunHangDetector {
 public:
  static constexpr double kPatienceSeconds = 10;

  explicit MpirunHangDetector(pid_t launcher, double patience_s = kPatienceSeconds)
      : launcher_(launcher), patience_s_(patience_s) {}
  /// Whether for the time of patience no child of it was alive and its first thread waited for a
  /// lock at every look; three times as long where no child was ever seen, since it may not have
  /// started any or they died between two looks. Looks twice a second. Never where the system does
  /// not tell.
  bool hangs();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kUnseen = 3;

  pid_t launcher_;
  double patience_s_;
  bool had_children_ = false;
  Clock::time_point looked_{}, active_ = Clock::now();
};

}  // namespace lockstep

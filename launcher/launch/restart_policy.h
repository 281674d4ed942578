// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// What one start of the ranks came to.
struct Attempt {
  int exit_code = 0;            ///< of the launcher; 128 + signal where one ended it or a rank
  bool stop_requested = false;  ///< this process was asked to stop meanwhile
  bool moves = false;           ///< the ranks were asked to stop, to start on other hosts
  bool out_of_grace = false;    ///< ... and the ranks had to be ended
  bool first = false;           ///< nothing was started before it
  bool trained = true;          ///< the ranks got as far as training
  bool progress = false;        ///< is_progress()
};

/// An attempt that lived so long counts as progress where it led to a newer snapshot in memory:
/// there is one soon after each start, also of ranks that die of it. A newer checkpoint on the disk
/// counts in any case.
inline constexpr double kLongEnoughSeconds = 30;
/// Of an attempt that ended after `lived_s`; `newer`: there is something newer to resume from.
inline bool is_progress(bool newer, bool newer_on_disk, double lived_s) {
  return newer && (newer_on_disk || lived_s >= kLongEnoughSeconds);
}

/// The attempt was ended by the wish to stop: by the ranks themselves, before they could take it
/// (where this process was asked to), or after the grace time, where mpirun tells no signal but 1.
bool was_stopped(const Attempt& attempt);

/// Decides what follows on an attempt. After one that was stopped to start on other hosts the ranks
/// start again, which does not count as a restart. Not retried: 0 done; 75 stopped on request; 2
/// (usage) and 7 (the loss is not finite), since the same bits would give the same end; 1, 3 and 4
/// (data, environment, memory) of a first start that never came to train, since what is wrong there
/// is for people to put right. Everything else is, above all signals and 5 (a rank is frozen or
/// stuck): a machine or a neighbour failed.
class RestartPolicy {
 public:
  enum class Verdict { done, stopped, failed, exhausted, restart, move };

  /// At most `max_restarts` in a row without a newer checkpoint or snapshot. The first of a row
  /// comes at once; then pauses double from `backoff_s` on to at most five minutes.
  RestartPolicy(int max_restarts, double backoff_s)
      : max_restarts_(max_restarts), backoff_s_(backoff_s) {}

  Verdict next(const Attempt& attempt);
  /// Ranks have outlived the death of another one, which counts as a restart, though not of those
  /// in a row.
  void note_survivors() { ++restarts_; }
  /// Seconds to wait before the restart that next() has allowed.
  double pause() const;
  int restarts() const { return restarts_; }

 private:
  int max_restarts_;
  double backoff_s_;
  int restarts_ = 0;
  int without_progress_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/watch_limits.h"
#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/heartbeat_messages.h"
#include "parallel/watchdog/heartbeat_relay.h"
#include "parallel/watchdog/heartbeat_tree.h"

namespace lockstep::watch {

/// One rank's place in the tree: what it makes of the messages of its parent and its children, what
/// it passes on, and whom it accuses. Free of sockets and clocks: whoever calls says what has come
/// and when, in seconds of one monotonic clock, and sends what members return.
///
/// Rank 0 hears of every rank and judges all of them. Every other rank judges its parent alone, as
/// it loses sight of rank 0 with that: so the ranks below a dead one find out by themselves.
class HeartbeatNode {
 public:
  /// `tree` outlives it.
  HeartbeatNode(const HeartbeatTree& tree, int rank, const WatchLimits& limits, double now);

  /// No rank has been silent or without progress before `now`.
  void restart(double now);

  // Before what came in a turn, FailureDetector::wake(). `from` is a neighbour.
  void on_beat(int from, const Beat& beat, double now);
  void on_summary(const RankSummary& summary, double now);
  void on_details(const RankBeat& details);
  // These return what the parent should know at once, if anything.
  std::optional<RankEnded> on_goodbye(int from, bool after_error, double now);
  std::optional<RankEnded> on_closed(int from, double now);
  std::optional<RankEnded> on_ended(const RankEnded& ended, double now);
  /// Of this rank, in each beat, before it is sent to its neighbours.
  void on_own_beat(const Beat& beat, double now);

  /// What the parent should know in this beat of the ranks below; see HeartbeatRelay.
  HeartbeatRelay::News news(double now);
  void mark_told();

  FailureDetector& detector() { return detector_; }
  const FailureDetector& detector() const { return detector_; }
  /// A rank has ended in a way that is about to be judged: at once, not in the next beat.
  bool judges_soon() const { return judges_soon_; }
  /// Seconds by which rank 0 may learn later than this rank what `verdict` says of its parent.
  double rank_zero_lag_s(const Verdict& verdict) const;

 private:
  std::optional<RankEnded> on_end(int from, RankEnded::How how, double now);
  void judge_end(int rank, RankEnded::How how, double now);

  const HeartbeatTree& tree_;
  const int rank_;
  FailureDetector detector_;
  std::optional<HeartbeatRelay> relay_;  // of ranks above 0 with children
  bool judges_soon_ = false;
};

}  // namespace lockstep::watch

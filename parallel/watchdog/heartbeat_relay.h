// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parallel/watchdog/heartbeat_messages.h"
#include "parallel/watchdog/heartbeat_tree.h"

namespace lockstep::watch {

/// What a rank between others and rank 0 has heard of the ranks below it, and what of that its
/// parent should know. Free of sockets and clocks; allocates in the constructor only.
///
/// A rank tells in each beat which ranks below it has heard of since the last one, in eight bytes
/// each, and whether they made progress: of 10,000 ranks that is 80 KB a beat for rank 0, where
/// their whole beats were 800 KB. Where a rank is it tells once the rank has made no progress for a
/// while, and when it has ended: that is when records and verdicts need it.
class HeartbeatRelay {
 public:
  /// Of `rank`. `patience_s`: without progress, until a rank's whole beat is passed on.
  HeartbeatRelay(const HeartbeatTree& tree, int rank, double patience_s);

  /// No rank below has been without progress before `now`.
  void restart(double now);

  // Ranks that are not below this one are ignored.
  void on_beat(int child, const Beat& beat, double now);
  void on_summary(const RankSummary& summary);
  void on_details(const RankBeat& details);
  /// Of a child. What the parent should know at once; nothing where the child had ended before.
  std::optional<RankEnded> on_end(int child, RankEnded::How how);
  void on_ended(const RankEnded& ended);

  struct News {
    std::span<const RankSummary> summaries;
    std::span<const RankBeat> details;
  };
  /// Since the last time that was followed by mark_told(). Valid until the next call of any member.
  News news(double now);
  /// What news() said is on its way.
  void mark_told();

 private:
  struct Rank {
    int rank = -1;
    bool is_child = false;
    bool heard = false, moved = false;  // and not yet passed on
    bool due = false;                   // `last` was passed on by a child
    bool told = false;                  // the parent has `last`
    bool ended = false;
    double progressed = 0;  // a child's
    Beat last;
  };
  Rank* find(int rank);

  const double patience_s_;
  std::vector<Rank> ranks_;  // in rank order
  std::vector<RankSummary> summaries_;
  std::vector<RankBeat> details_;
};

}  // namespace lockstep::watch

// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_relay.h"

#include <algorithm>

namespace lockstep::watch {
namespace {

bool same_place(const Beat& a, const Beat& b) {
  return a.ticks == b.ticks && a.collectives == b.collectives && a.step == b.step &&
         a.stage == b.stage && a.phase == b.phase;
}

bool same_state(const Beat& beat, std::uint8_t stage, std::uint8_t traced, std::uint8_t waits) {
  return beat.stage == stage && beat.traced == traced && beat.in_collective == waits;
}

}  // namespace

HeartbeatRelay::HeartbeatRelay(const HeartbeatTree& tree, int rank, double patience_s)
    : patience_s_(patience_s) {
  for (const int below : tree.ranks_below(rank)) {
    Rank one;
    one.rank = below;
    one.is_child = tree.parent(below) == rank;
    ranks_.push_back(one);
  }
  summaries_.reserve(ranks_.size());
  details_.reserve(ranks_.size());
}

void HeartbeatRelay::restart(double now) {
  for (Rank& rank : ranks_) rank.progressed = now;
}

HeartbeatRelay::Rank* HeartbeatRelay::find(int rank) {
  const auto at = std::ranges::lower_bound(ranks_, rank, {}, &Rank::rank);
  return at != ranks_.end() && at->rank == rank ? &*at : nullptr;
}

void HeartbeatRelay::on_beat(int child, const Beat& beat, double now) {
  Rank* const rank = find(child);
  if (rank == nullptr) return;
  const bool moved = !same_place(rank->last, beat);
  rank->heard = true;
  rank->moved |= moved;
  if (moved) rank->progressed = now;
  if (moved || !same_state(rank->last, beat.stage, beat.traced, beat.in_collective))
    rank->told = false;
  rank->last = beat;
}

void HeartbeatRelay::on_summary(const RankSummary& summary) {
  Rank* const rank = find(summary.rank);
  if (rank == nullptr) return;
  rank->heard = true;
  rank->moved |= summary.moved != 0;
  rank->last.stage = summary.stage;
  rank->last.traced = summary.traced;
  rank->last.in_collective = summary.in_collective;
}

void HeartbeatRelay::on_details(const RankBeat& details) {
  Rank* const rank = find(details.rank);
  if (rank == nullptr) return;
  rank->last = details.beat;
  rank->due = true;
}

std::optional<RankEnded> HeartbeatRelay::on_end(int child, RankEnded::How how) {
  Rank* const rank = find(child);
  if (rank == nullptr || rank->ended) return std::nullopt;
  rank->ended = true;
  return RankEnded{child, how, rank->last};
}

void HeartbeatRelay::on_ended(const RankEnded& ended) {
  if (Rank* const rank = find(ended.rank)) rank->ended = true;
}

HeartbeatRelay::News HeartbeatRelay::news(double now) {
  summaries_.clear();
  details_.clear();
  for (const Rank& rank : ranks_) {
    if (rank.ended) continue;
    const Beat& last = rank.last;
    if (rank.heard)
      summaries_.push_back(
          {rank.rank, last.stage, std::uint8_t(rank.moved), last.traced, last.in_collective});
    const bool rests = rank.is_child && now - rank.progressed > patience_s_;
    if (rank.due || (rests && !rank.told)) details_.push_back({rank.rank, last});
  }
  return {summaries_, details_};
}

void HeartbeatRelay::mark_told() {
  for (const RankSummary& summary : summaries_) {
    Rank& rank = *find(summary.rank);
    rank.heard = rank.moved = false;
  }
  for (const RankBeat& details : details_) {
    Rank& rank = *find(details.rank);
    rank.due = false;
    rank.told = true;
  }
}

}  // namespace lockstep::watch

// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_node.h"

#include <algorithm>

namespace lockstep::watch {
namespace {

/// Where a rank is has to be known before the first verdict that it may be named in.
double patience_of(const WatchLimits& limits) {
  double shortest = 0;
  for (const double limit :
       {limits.training_s, limits.start_s, limits.evaluation_s, limits.saving_s})
    if (limit > 0 && (shortest <= 0 || limit < shortest)) shortest = limit;
  return shortest / 2;
}

}  // namespace

HeartbeatNode::HeartbeatNode(const HeartbeatTree& tree,
                             int rank,
                             const WatchLimits& limits,
                             double now)
    : tree_(tree), rank_(rank), detector_(tree, rank, now) {
  detector_.set_limits(limits);
  if (rank > 0 && tree.has_children(rank)) relay_.emplace(tree, rank, patience_of(limits));
}

void HeartbeatNode::restart(double now) {
  detector_.restart(now);
  if (relay_) relay_->restart(now);
}

void HeartbeatNode::on_beat(int from, const Beat& beat, double now) {
  if (rank_ == 0 || from == tree_.parent(rank_))
    detector_.beat(from, unpack(beat), beat.traced != 0, now);
  else if (relay_)
    relay_->on_beat(from, beat, now);
}

void HeartbeatNode::on_own_beat(const Beat& beat, double now) {
  if (rank_ == 0) on_beat(0, beat, now);
}

void HeartbeatNode::on_summary(const RankSummary& summary, double now) {
  if (relay_) return relay_->on_summary(summary);
  if (rank_ > 0 || summary.rank <= 0 || summary.rank >= tree_.ranks()) return;
  Beat flags;
  flags.stage = summary.stage;
  detector_.beat(summary.rank,
                 {.stage = unpack(flags).stage,
                  .moved = summary.moved != 0,
                  .traced = summary.traced != 0,
                  .waits = summary.in_collective != 0},
                 now);
}

void HeartbeatNode::on_details(const RankBeat& details) {
  if (relay_) return relay_->on_details(details);
  if (rank_ == 0 && details.rank > 0 && details.rank < tree_.ranks())
    detector_.learn(details.rank, unpack(details.beat));
}

std::optional<RankEnded> HeartbeatNode::on_goodbye(int from, bool after_error, double now) {
  return on_end(from, after_error ? RankEnded::How::failed : RankEnded::How::left, now);
}

std::optional<RankEnded> HeartbeatNode::on_closed(int from, double now) {
  return on_end(from, RankEnded::How::closed, now);
}

std::optional<RankEnded> HeartbeatNode::on_end(int from, RankEnded::How how, double now) {
  if (rank_ > 0 && from != tree_.parent(rank_))
    return relay_ ? relay_->on_end(from, how) : std::nullopt;
  judge_end(from, how, now);
  return std::nullopt;
}

std::optional<RankEnded> HeartbeatNode::on_ended(const RankEnded& ended, double now) {
  if (relay_) {
    relay_->on_ended(ended);
    return ended;
  }
  if (rank_ == 0 && ended.rank > 0 && ended.rank < tree_.ranks()) {
    detector_.learn(ended.rank, unpack(ended.beat));
    judge_end(ended.rank, ended.how, now);
  }
  return std::nullopt;
}

void HeartbeatNode::judge_end(int rank, RankEnded::How how, double now) {
  if (how != RankEnded::How::left) judges_soon_ = judges_soon_ || detector_.is_present(rank);
  if (how == RankEnded::How::closed)
    detector_.closed(rank, now);
  else
    detector_.goodbye(rank, how == RankEnded::How::failed, now);
}

HeartbeatRelay::News HeartbeatNode::news(double now) {
  return relay_ ? relay_->news(now) : HeartbeatRelay::News{};
}

void HeartbeatNode::mark_told() {
  if (relay_) relay_->mark_told();
}

double HeartbeatNode::rank_zero_lag_s(const Verdict& verdict) const {
  // A closed connection is passed on at once, silence with the beats.
  const bool silent = verdict.kind == Verdict::Kind::frozen;
  return silent ? kBeatSeconds * std::max(tree_.depth(verdict.rank), 0) : 0;
}

}  // namespace lockstep::watch

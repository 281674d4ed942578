// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/straggler_watch.h"

#include "parallel/replica/replica_state.h"

namespace lockstep {
namespace {

/// Of ranks on hosts that have more of them than processors, or that share processors otherwise.
std::vector<bool> which_are_crowded(const std::vector<RankPlacement>& placements) {
  std::vector<bool> oversubscribed(placements.size());
  for (const OversubscribedRanks& group : oversubscribed_ranks(placements))
    for (const int rank : group.ranks) oversubscribed[std::size_t(rank)] = true;
  return oversubscribed;
}

RankWork work_of(const StepTimes& times) {
  return {times.whole_loading,
          times.whole_compute,
          double(times.whole_loaded),
          double(times.whole_computed)};
}

}  // namespace

StragglerWatch::StragglerWatch(RankContext& context,
                               const ReplicaState& replica,
                               const std::vector<TrainObserver*>& observers)
    : replica_(replica),
      observers_(observers),
      judges_(context.rank() == 0),
      told_(work_of(replica.times())),
      placements_(gather_rank_placements(context.host_communicator())),
      work_(std::size_t(context.size())) {
  if (judges_) scores_.emplace(which_are_crowded(placements_));
}

void StragglerWatch::write(float* own) {
  const RankWork now = work_of(replica_.times());
  own[0] = float(now.loading - told_.loading);
  own[1] = float(now.compute - told_.compute);
  own[2] = float(now.loaded - told_.loaded);
  own[3] = float(now.computed - told_.computed);
  told_ = now;
}

void StragglerWatch::read(const RankParts& parts) {
  if (!judges_) return;
  for (int rank = 0; rank < parts.ranks(); ++rank) {
    const float* part = parts.of(rank);
    work_[std::size_t(rank)] = {part[0], part[1], part[2], part[3]};
  }
  scores_->add(work_, steps_);
  steps_ = 0;
  for (const RankScore& score : scores_->news())
    for (TrainObserver* observer : observers_) observer->on_slow_rank(record(score));
}

std::optional<SlowRankRecord> StragglerWatch::slowest() {
  const auto score = scores_ ? scores_->slowest() : std::nullopt;
  if (!score) return std::nullopt;
  return record(*score);
}

SlowRankRecord StragglerWatch::record(const RankScore& score) const {
  return {.rank = score.rank,
          .host = placements_[std::size_t(score.rank)].host,
          .score = score.score,
          .phase = score.in_loading ? "loading" : "forward and backward",
          .ms = score.seconds * 1e3,
          .median_ms = score.median_seconds * 1e3};
}

}  // namespace lockstep

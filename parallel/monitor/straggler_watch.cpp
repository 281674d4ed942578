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
      message_(context.rank(), context.size(), work_of(replica.times())),
      placements_(gather_rank_placements(context.host_communicator())) {
  if (judges_) scores_.emplace(which_are_crowded(placements_));
}

void StragglerWatch::write(float* own) { message_.write(own, work_of(replica_.times())); }

void StragglerWatch::read(const float* sums) {
  if (!judges_) return;
  const std::span<const RankWork> work = message_.read(sums);
  if (work.empty()) return;
  scores_->add(work, steps_);
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

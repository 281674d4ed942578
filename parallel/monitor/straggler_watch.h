// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/rank_context.h"
#include "lockstep/train_records.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/monitor/rank_placement.h"
#include "parallel/monitor/straggler_scores.h"
#include "parallel/monitor/work_message.h"

namespace lockstep {

class ReplicaState;

/// Names ranks that are slower than the others while the run continues. What each rank took for its
/// own work travels in the StopAgreement's message (WorkMessage); rank 0 judges (StragglerScores)
/// and tells its observers.
///
/// Beyond WorkMessage::kRanksAMessage ranks it judges once each rank had a turn: with 10,000 of
/// them every 10 messages, or 20 s, so that a slow rank is named after some 2 minutes rather than 5
/// s of work, and a run that is shorter than 40 s has no slowest rank.
///
/// It sees what the processor waits for: inside a batch norm over several ranks a slow rank's time
/// is all ranks'; and work that a GPU does asynchronously shows only where the
/// processor waits for it during forward or backward. What a graph's launch does counts as loading
/// alone.
class StragglerWatch final : public MessagePart {
 public:
  /// Collective. All of it must outlive the watch.
  StragglerWatch(RankContext& context,
                 const ReplicaState& replica,
                 const std::vector<TrainObserver*>& observers);

  void after_step() { ++steps_; }
  /// Rank 0: of the whole run so far; nothing where no message has come.
  std::optional<SlowRankRecord> slowest();
  /// Where every rank runs; on rank 0, empty on others.
  const std::vector<RankPlacement>& placements() const { return placements_; }

  int floats() const override { return message_.floats(); }
  void write(float* own) override;
  void read(const float* sums) override;

 private:
  SlowRankRecord record(const RankScore& score) const;

  const ReplicaState& replica_;
  const std::vector<TrainObserver*>& observers_;
  bool judges_;
  WorkMessage message_;
  std::vector<RankPlacement> placements_;  // of ranks; on rank 0
  std::int64_t steps_ = 0;                 // since the last read()
  std::optional<StragglerScores> scores_;
};

}  // namespace lockstep

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

namespace lockstep {

class ReplicaState;

/// Names ranks that are slower than the others while the run continues. What each rank took for its
/// own work travels in the StopAgreement's message; rank 0 judges (StragglerScores) and tells its
/// observers.
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
  /// Where every rank runs.
  const std::vector<RankPlacement>& placements() const { return placements_; }

  int floats() const override { return 4; }
  void write(float* own) override;
  void read(const RankParts& parts) override;

 private:
  SlowRankRecord record(const RankScore& score) const;

  const ReplicaState& replica_;
  const std::vector<TrainObserver*>& observers_;
  bool judges_;
  RankWork told_;                          // of this rank, in messages so far
  std::vector<RankPlacement> placements_;  // of ranks
  std::vector<RankWork> work_;             // reserved for read()
  std::int64_t steps_ = 0;                 // since the last read()
  std::optional<StragglerScores> scores_;
};

}  // namespace lockstep

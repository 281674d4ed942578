// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "parallel/monitor/straggler_scores.h"

namespace lockstep {

/// The work of every rank in messages of which sums over the ranks arrive, as the StopAgreement's:
/// each rank has floats of its own, into which the others write 0.
///
/// A message has room for kRanksAMessage ranks. Where there are more they take turns: each message
/// carries the next kRanksAMessage of them, with all that they did since their last turn.
class WorkMessage {
 public:
  static constexpr int kRanksAMessage = 1024;  // 16 KiB

  /// `done` by this rank before.
  WorkMessage(int rank, int ranks, const RankWork& done = {})
      : rank_(rank),
        turns_((ranks - 1) / kRanksAMessage + 1),
        told_(done),
        work_(std::size_t(ranks)) {}

  int floats() const { return kFloats * int(std::min<std::size_t>(work_.size(), kRanksAMessage)); }
  /// Messages after which each rank had a turn.
  int turns() const { return turns_; }
  /// `done` by this rank so far. `own` holds zeros.
  void write(float* own, const RankWork& done);
  /// Work by rank, each since its turn before, once all had one; empty before that. Valid until the
  /// next call. Messages are read in the order in which they were written.
  std::span<const RankWork> read(const float* sums);

 private:
  static constexpr int kFloats = 4;  // of a rank

  int rank_, turns_;
  int written_ = 0, read_ = 0;  // the turn of the next message
  RankWork told_;               // of this rank, in messages so far
  std::vector<RankWork> work_;  // by rank
};

}  // namespace lockstep

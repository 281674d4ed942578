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
        ranks_(std::size_t(ranks)),
        told_(done),
        work_(rank == 0 ? ranks_ : 0) {}

  int floats() const { return kFloats * int(std::min<std::size_t>(ranks_, kRanksAMessage)); }
  /// Messages after which each rank had a turn.
  int turns() const { return turns_; }
  /// `done` by this rank so far. `own` holds zeros.
  void write(float* own, const RankWork& done);
  /// Work by rank, each since its turn before, once all had one; empty before that. Valid until the
  /// next call. Messages are read in the order in which they were written; only on rank 0 does the
  /// first call not allocate.
  std::span<const RankWork> read(const float* sums);

 private:
  static constexpr int kFloats = 4;  // of a rank

  int rank_, turns_;
  std::size_t ranks_;
  int written_ = 0, read_ = 0;  // the turn of the next message
  RankWork told_;               // of this rank, in messages so far
  std::vector<RankWork> work_;  // by rank, where messages are read
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/work_message.h"

#include <utility>

namespace lockstep {

void WorkMessage::write(float* own, const RankWork& done) {
  const int turn = std::exchange(written_, (written_ + 1) % turns_);
  if (rank_ / kRanksAMessage != turn) return;
  own += rank_ % kRanksAMessage * kFloats;
  own[0] = float(done.loading - told_.loading);
  own[1] = float(done.compute - told_.compute);
  own[2] = float(done.loaded - told_.loaded);
  own[3] = float(done.computed - told_.computed);
  told_ = done;
}

std::span<const RankWork> WorkMessage::read(const float* sums) {
  work_.resize(ranks_);
  const int turn = std::exchange(read_, (read_ + 1) % turns_);
  const auto first = std::size_t(turn) * kRanksAMessage;
  const std::size_t end = std::min(work_.size(), first + kRanksAMessage);
  for (std::size_t rank = first; rank < end; ++rank, sums += kFloats)
    work_[rank] = {sums[0], sums[1], sums[2], sums[3]};
  return turn + 1 == turns_ ? std::span<const RankWork>(work_) : std::span<const RankWork>();
}

}  // namespace lockstep

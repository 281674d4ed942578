// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// Every rank's record, by rank, on every rank: its bytes as they are. Collective. Each rank
/// receives them all, so that records are small where there may be thousands; agreement.h is for
/// what is the largest, the first, or equal.
template <typename Record>
std::vector<Record> gather_records(Communicator& communicator, const Record& own) {
  static_assert(std::is_trivially_copyable_v<Record> && !std::is_same_v<Record, bool>);
  std::vector<Record> all(std::size_t(communicator.size()));
  communicator.all_gather(&own, all.data(), sizeof own);
  return all;
}

/// Every rank's record, by rank, on rank 0; empty on the others, whose memory does not grow with
/// the number of ranks. Collective.
template <typename Record>
std::vector<Record> gather_records_on_rank_0(Communicator& communicator,
                                             std::span<const Record> own) {
  static_assert(std::is_trivially_copyable_v<Record> && !std::is_same_v<Record, bool>);
  const auto ranks = std::size_t(communicator.rank() == 0 ? communicator.size() : 0);
  std::vector<Record> all(ranks * own.size());
  communicator.gather(own.data(), all.data(), own.size_bytes(), 0);
  return all;
}

/// Rank `rank`'s record on every rank. Collective.
template <typename Record>
Record record_of_rank(Communicator& communicator, Record own, int rank) {
  static_assert(std::is_trivially_copyable_v<Record>);
  communicator.broadcast(&own, sizeof own, rank);
  return own;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/exec/communicator.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// Who works together on a level of the exchange; see LevelPlan.
enum class LevelMembers : std::uint8_t {
  all,          ///< every rank
  host,         ///< the ranks of one host
  across_hosts  ///< the ranks of the same place on all hosts
};

/// What ranks exchange gradients by. Ranks reach the collectives of a bucket at different times,
/// yet each must start those of a communicator in one order: so all-to-alls, gathers and small
/// buckets have a communicator of their own each, unless collectives are ordered in stream order.
///
/// Two exchanges that are never at work at once share them: a communicator of very many ranks costs
/// a start seconds, and NCCL takes memory for each.
class ExchangeCommunicators {
 public:
  /// Of one level.
  struct Level {
    LevelMembers members = LevelMembers::all;
    Communicator* exchange = nullptr;
    Communicator* gather = nullptr;
  };

  /// Collective over all ranks. `all` must outlive it.
  ExchangeCommunicators(Communicator& all, Reduction reduction);

  /// One of all ranks, or, where hosts are levels, the host's and that across hosts.
  const std::vector<Level>& levels() const { return levels_; }
  /// Of all ranks.
  Communicator& small_buckets() const { return *small_buckets_; }

 private:
  void add_level(Communicator& all, LevelMembers members);

  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<Level> levels_;
  Communicator* small_buckets_;
};

}  // namespace lockstep

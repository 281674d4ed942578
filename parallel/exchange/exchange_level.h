// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/plan/flat_space.h"
#include "parallel/exchange/exchange_counts.h"
#include "parallel/exchange/exchange_plan.h"

namespace lockstep {

/// Who works together on a level of the exchange; see LevelPlan.
enum class LevelMembers : std::uint8_t {
  all,          ///< every rank
  host,         ///< the ranks of one host
  across_hosts  ///< the ranks of the same place on all hosts
};

/// One level's part in the exchange of a bucket:
///   start_all_to_all() of pieces; their requests complete; sum() the own piece in tree order
///   start_all_gather() of pieces, once the own piece of `gradients` holds what all are to have
///
/// Ranks reach these points at different times, yet each must start the collectives of a
/// communicator in one order: so both have a communicator of their own, unless collectives are
/// ordered in stream order.
class ExchangeLevel {
 public:
  /// Collective over all ranks. `communicator` must outlive it.
  ExchangeLevel(Backend& backend,
                Communicator& communicator,
                LevelMembers members,
                float* gradients,
                int bucket_count);

  /// `own`: this rank's nodes, laid out as `gradients`.
  void begin(const LevelPlan& plan, std::span<float* const> own);
  /// Appends to `requests`. `receive` belongs to this bucket until sum() returns.
  void start_all_to_all(Bucket bucket, float* receive, std::vector<CommRequestPtr>& requests);
  void sum(Bucket bucket, float* receive);
  CommRequestPtr start_all_gather(Bucket bucket);
  /// What Reduction::fast has instead of all that.
  CommRequestPtr start_all_reduce(Bucket bucket);

  /// Of all-reduces, what a ring sends; how much of that goes to other hosts is not known.
  const SentBytes& sent() const { return sent_; }

 private:
  CommBlock piece(std::int64_t elems, int member) const;
  void count(int member, std::int64_t elems);

  Backend& backend_;
  float* gradients_;
  int ranks_;             // of all members of all hosts: the chunks of a bucket
  int members_per_host_;  // of this level
  std::unique_ptr<Communicator> own_comms_[2];
  Communicator* exchange_comm_;
  Communicator* gather_comm_;
  int member_ = 0, members_ = 1;
  const LevelPlan* plan_ = nullptr;
  std::vector<float*> own_;           // [own nodes]
  std::vector<CommBlock> to_, from_;  // [members]
  std::vector<float*> operands_;      // [nodes of the plan]
  std::vector<TreeTerm> terms_;       // [nodes of the plan]
  SentBytes sent_;
};

}  // namespace lockstep

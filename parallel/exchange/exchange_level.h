// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/plan/flat_space.h"
#include "parallel/exchange/exchange_communicators.h"
#include "parallel/exchange/exchange_counts.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/kept_sums.h"

namespace lockstep {

class SumLists;

/// One level's part in the exchange of a bucket:
///   start_all_to_all() of pieces; their requests complete; sum() the own piece in tree order, on
///   a host to sums() that the next level sends on
///   start_all_gather() of pieces, once the own piece of the sum holds what all are to have
///
/// Ranks reach these points at different times: see ExchangeCommunicators. (Where collectives are
/// in stream order, those of one level go to one stream: Note [Two streams].)
class ExchangeLevel {
 public:
  /// `all`: every rank. It and what is in `communicators` must outlive it.
  ExchangeLevel(Backend& backend,
                const Communicator& all,
                const ExchangeCommunicators::Level& communicators,
                float* gradients,
                int bucket_count);

  void begin(const LevelPlan& plan);
  /// Elements that it receives of a bucket.
  std::int64_t received(Bucket bucket) const;
  /// `own`: where this rank's nodes begin, of the stretch of the bucket that the level cuts.
  /// Appends to `requests`. `receive`, received() elements, and the own piece of `own` belong to
  /// this level until sum() returns, and on a host until its sums() have been sent.
  void start_all_to_all(Bucket bucket,
                        std::span<float* const> own,
                        float* receive,
                        std::vector<CommRequestPtr>& requests);
  /// On the last level the sum stands where KeptSums::last() says, or the sums in the places of
  /// `kept` that the plan says.
  void sum(Bucket bucket, std::span<float* const> own, float* receive, const KeptSums& kept);
  /// Of a host, after sum(): where LevelPlan::sums begin, of the own piece, which is what the level
  /// across hosts cuts. Valid until the next call.
  std::span<float* const> sums(Bucket bucket, std::span<float* const> own, float* receive);
  CommRequestPtr start_all_gather(Bucket bucket, const KeptSums& kept);
  /// What Reduction::fast has instead of all that.
  CommRequestPtr start_all_reduce(Bucket bucket);

  /// That start_all_gather() uses.
  Communicator& gather_communicator() { return *gather_comm_; }

  /// Of all-reduces, what a ring sends; how much of that goes to other hosts is not known.
  const SentBytes& sent() const { return sent_; }

 private:
  CommBlock piece(std::int64_t elems, int member) const;
  CommBlock stretch(std::int64_t elems) const;  // all pieces
  /// Of the own piece.
  std::span<float*> find_operands(SumLists& lists,
                                  Bucket bucket,
                                  std::span<float* const> own,
                                  float* receive) const;
  void reserve_scratch() const;
  void count(int member, std::int64_t elems);

  Backend& backend_;
  float* gradients_;
  int ranks_;  // of all members of all hosts: the chunks of a bucket
  bool last_level_;
  int members_per_host_;  // of this level
  Communicator* exchange_comm_;
  Communicator* gather_comm_;
  int member_ = 0, members_ = 1;
  int first_chunk_ = 0;  // of member 0, of the chunks of a bucket
  const LevelPlan* plan_ = nullptr;
  // [LevelPlan::sums]; where hosts sum, the operand in whose place each sum stands.
  std::vector<int> places_;
  std::vector<float*> sums_;  // [LevelPlan::sums]
  SentBytes sent_;
};

}  // namespace lockstep

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
#include "parallel/exchange/kept_sums.h"
#include "parallel/exchange/partial_sums.h"

namespace lockstep {

/// The small buckets: every rank gathers every node of the bucket and finishes the tree itself.
///
/// One *blocking* all-gather, when the bucket is asked for: for a few hundred bytes the set-up of a
/// nonblocking collective costs several times the message, and there is nothing worth hiding.
class SmallBucketAllGather {
 public:
  static constexpr std::int64_t kSmallBucketBytes = 64 * 1024;
  /// Most bytes that a rank gathers for one bucket.
  static constexpr std::int64_t kMaxBytes = 1024 * 1024;

  /// `communicator`: see ExchangeCommunicators::small_buckets(). Must outlive it.
  SmallBucketAllGather(Backend& backend,
                       Communicator& communicator,
                       PartialSums& sums,
                       const KeptSums& kept,
                       float* gradients);

  /// Whether a bucket goes this way. Equal on every rank.
  bool takes(const ExchangeSize& size, std::int64_t bucket_elems) const {
    return takes(size.nodes, bucket_elems);
  }
  /// `nodes`: of all ranks.
  static bool takes(int nodes, std::int64_t bucket_elems);
  /// allocate() makes room for the most that was asked for.
  void reserve(const ExchangeSize& size, std::int64_t bucket_elems);
  /// For every size up to `most` with which the bucket goes this way.
  void reserve_up_to(const ExchangeSize& most, std::int64_t bucket_elems);
  /// Throws OutOfMemory.
  void allocate();
  std::size_t bytes() const;

  void begin(const ExchangePlan& plan);
  /// Blocks until `gradients` holds the bucket's sum, or `kept` its sums, but where the
  /// communicator is in stream order. Ranks call this in the same bucket order.
  void finish(Bucket bucket);
  SentBytes sent() const { return sent_; }

 private:
  Backend& backend_;
  PartialSums& sums_;
  const KeptSums& kept_;
  float* gradients_;
  int rank_, ranks_, ranks_per_host_;
  Communicator& comm_;
  std::size_t received_bytes_ = 0, packed_bytes_ = 0;  // reserved
  std::unique_ptr<DeviceBuffer> received_;             // [nodes of all ranks][elements]
  std::unique_ptr<DeviceBuffer> packed_;  // [own nodes][elements], where there are several
  const ExchangePlan* plan_ = nullptr;
  SentBytes sent_;
};

/// Of each bucket, what a rank keeps with dealt shards: its chunk, or a small bucket whole. The
/// chunk of rank 0 is never the smaller one: every rank then reserves alike.
std::vector<std::int64_t> kept_elems(std::span<const Bucket> buckets, int ranks);

}  // namespace lockstep

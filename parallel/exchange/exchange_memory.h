// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/plan/flat_space.h"
#include "lockstep/train_options.h"
#include "parallel/exchange/bucket_pipeline.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/kept_sums.h"
#include "parallel/exchange/partial_sums.h"
#include "parallel/exchange/small_bucket_all_gather.h"

namespace lockstep {

/// Reserves what the parts of an exchange need, before its first step.
class ExchangeMemory {
 public:
  struct Ranks {
    int rank = 0, ranks = 1;
    Reduction reduction = Reduction::reproducible;
    int buckets_in_flight = 1;  ///< at most
  };
  /// Everything outlives it.
  ExchangeMemory(const Ranks& ranks,
                 std::span<const Bucket> buckets,
                 PartialSums& sums,
                 KeptSums& kept,
                 SmallBucketAllGather& gather,
                 BucketPipeline& chunks);

  /// For every schedule of consecutive shards: whole batches have `max_shards`, last batches fewer.
  /// Throws OutOfMemory, as the others do.
  void reserve_for_schedules(int max_shards);
  /// For every schedule that deals shards to clusters of `cluster` ranks.
  void reserve_for_turns(int max_shards, int cluster);
  /// For one plan, a bucket at a time.
  void reserve_for_plan(const ExchangeSize& size);

  /// Elements of the largest bucket that goes in chunks with a plan of this size.
  std::int64_t largest_chunked(const ExchangeSize& size) const;

 private:
  void reserve(const ExchangeSize& size, int buckets_in_flight);
  void reserve_up_to(const ExchangeSize& most);
  void allocate();
  ExchangeSize size_of_whole(int shards) const;

  const Ranks ranks_;
  const std::span<const Bucket> buckets_;
  PartialSums& sums_;
  KeptSums& kept_;
  SmallBucketAllGather& gather_;
  BucketPipeline& chunks_;
};

}  // namespace lockstep

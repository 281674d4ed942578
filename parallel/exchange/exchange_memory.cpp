// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_memory.h"

#include <algorithm>
#include <array>
#include <memory>

#include "core/host/shared_values.h"
#include "parallel/batch/schedule.h"
#include "parallel/exchange/turn_plans.h"

namespace lockstep {
namespace {

// Up to so many shards, memory is for the schedules that there are, each looked at; with more, for
// a bound of their sizes that takes no time to find.
constexpr int kMaxShardsLookedAt = 256;

}  // namespace

ExchangeMemory::ExchangeMemory(const Ranks& ranks,
                               std::span<const Bucket> buckets,
                               PartialSums& sums,
                               KeptSums& kept,
                               SmallBucketAllGather& gather,
                               BucketPipeline& chunks)
    : ranks_(ranks),
      buckets_(buckets),
      sums_(sums),
      kept_(kept),
      gather_(gather),
      chunks_(chunks) {}

std::int64_t ExchangeMemory::largest_chunked(const ExchangeSize& size) const {
  std::int64_t largest = 0;
  for (const Bucket& bucket : buckets_)
    if (!gather_.takes(size, bucket.elems)) largest = std::max(largest, bucket.elems);
  return largest;
}

// Absent shards need no more than present ones. Only whole batches get memory for several buckets
// in flight, on one level: where two take more, fewer are.
void ExchangeMemory::reserve_for_schedules(int max_shards) {
  reserve(size_of_whole(max_shards), ranks_.buckets_in_flight);
  if (max_shards > kMaxShardsLookedAt) {
    reserve_up_to(max_exchange_size(max_shards, ranks_.ranks, ranks_.rank, ranks_.reduction));
    return allocate();
  }
  for (int cluster = 1; cluster <= ranks_.ranks; ++cluster) {
    if (ranks_.ranks % cluster != 0) continue;
    for (int shards = cluster; shards <= max_shards; shards += cluster)
      reserve(
          exchange_size(
              shards, shard_owners(shards, ranks_.ranks, cluster), ranks_.rank, ranks_.reduction),
          1);
  }
  allocate();
}

// Each rank has one node a turn.
void ExchangeMemory::reserve_for_turns(int max_shards, int cluster) {
  reserve(max_exchange_size(ranks_.ranks, ranks_.ranks, ranks_.rank, ranks_.reduction),
          ranks_.buckets_in_flight);
  kept_.reserve(max_kept_sums(max_shards, ranks_.ranks, cluster));
  allocate();
}

void ExchangeMemory::reserve_for_plan(const ExchangeSize& size) {
  reserve(size, 1);
  allocate();
}

void ExchangeMemory::reserve(const ExchangeSize& size, int buckets_in_flight) {
  sums_.reserve(size.depth);
  if (ranks_.ranks == 1) return;
  for (const Bucket& bucket : buckets_)
    if (gather_.takes(size, bucket.elems)) gather_.reserve(size, bucket.elems);
  const std::int64_t largest = largest_chunked(size);
  ExchangeSize on_one_level = size;
  on_one_level.received_chunks = size.nodes - size.own_nodes;
  chunks_.reserve(std::max(buckets_in_flight * chunks_.slot_elems(on_one_level, largest),
                           chunks_.slot_elems(size, largest)));
}

/// For every schedule that `most` covers, one bucket at a time.
void ExchangeMemory::reserve_up_to(const ExchangeSize& most) {
  sums_.reserve(most.depth);
  if (ranks_.ranks == 1) return;
  for (const Bucket& bucket : buckets_) gather_.reserve_up_to(most, bucket.elems);
  chunks_.reserve(chunks_.slot_elems(most, largest_chunked(most)));
}

/// Once for all schedules: memory that grows from one to the next is zeroed as often.
void ExchangeMemory::allocate() {
  gather_.allocate();
  chunks_.allocate();
}

ExchangeSize ExchangeMemory::size_of_whole(int shards) const {
  static SharedValues<std::array<int, 3>, ExchangeSizes> shared;
  const auto make = [&] {
    return std::make_shared<const ExchangeSizes>(
        shards, shard_owners(shards, ranks_.ranks, 1), ranks_.reduction);
  };
  return shared.get({shards, ranks_.ranks, int(ranks_.reduction)}, make)->of(ranks_.rank);
}

}  // namespace lockstep

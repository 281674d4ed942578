// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// Which micro-batches a rank computes in a step, in which order, and how they group into shards.
///
/// A global batch of B samples is M = ceil(B / micro) micro-batches; the last may be short. The
/// leaves of the reduction tree are the micro-batches in *leaf order*, cut into V shards whose
/// sizes differ by at most one; each rank owns consecutive shards. Leaf order is the micro-batch
/// order where batch-norm groups lie inside a micro-batch. Where k ranks form a group (a cluster),
/// the ranks of a cluster deal consecutive micro-batches among their slots and leaves are ordered
/// slot by slot (0, k, 2k, ..., 1, k+1, ...): shards never straddle slots, each slot has V / k of
/// them. So every number of clusters gives the same shards, sums and bits.
struct ScheduleSettings {
  std::int64_t samples = 0;      ///< in this global batch
  std::int64_t micro_batch = 1;  ///< the last micro-batch may have fewer
  int shards = 1;                ///< V; fewer are used where there are fewer micro-batches
  int ranks = 1;
  int cluster = 1;  ///< k; ranks is a multiple
};

struct MicroBatch {
  std::int64_t first_sample = 0;  ///< position in the global batch
  std::int64_t samples = 0;
};

/// Consecutive leaves of one shard, on the rank that owns it.
struct ShardWork {
  int shard = 0;
  std::vector<MicroBatch> micro_batches;  ///< in leaf order
};

/// Half-open range of shard numbers.
struct ShardRange {
  int first = 0;
  int last = 0;
  bool empty() const { return first >= last; }
};

struct Schedule {
  std::int64_t samples = 0;
  int shards = 0;                          ///< V in use for this batch
  std::vector<ShardRange> shards_of_rank;  ///< of every rank
  std::vector<ShardWork> work;             ///< of this rank
  /// With clusters: rounds that the cluster's busiest slot runs. A rank with fewer micro-batches
  /// runs its program for zero samples in the missing rounds, to join the collectives.
  int rounds = 0;
};

/// The part of `rank`. Pure; equal settings give equal schedules on every rank.
/// Throws ConfigError: ranks is no multiple of the cluster, nothing to do, more ranks than shards
/// where the batch is whole. (A short last batch may leave ranks without work.)
Schedule make_schedule(const ScheduleSettings& settings, int rank);

/// The shards a run uses where the user names none: min(M, 64), rounded down to a multiple of the
/// cluster.
int default_shards(std::int64_t micro_batches, int cluster);

}  // namespace lockstep

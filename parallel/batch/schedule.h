// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/schedule.h"

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
///
/// Where shards are dealt, as owners of sharded gradients want it (Note [Sharded gradients] in
/// turn_plans.h), a rank's shards are not consecutive: with C clusters, cluster c computes in turn
/// t number t C + c of each slot. Shards and leaves are the same.
struct ScheduleSettings {
  std::int64_t samples = 0;      ///< in this global batch
  std::int64_t micro_batch = 1;  ///< the last micro-batch may have fewer
  int shards = 1;                ///< V; fewer are used where there are fewer micro-batches
  int ranks = 1;
  int cluster = 1;  ///< k; ranks is a multiple
  bool dealt = false;
  bool operator==(const ScheduleSettings&) const = default;
};

/// Most micro-batches that one step may have; more is taken for a mistake.
inline constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 24;

/// The part of `rank`, where rank = cluster number * cluster + slot. Pure; equal settings give
/// equal schedules on every rank. Throws ConfigError: ranks or shards are not a multiple of the
/// cluster, nothing to do, more ranks than `settings.shards`, more than kMaxMicroBatches
/// micro-batches. (A short last batch has fewer shards than `settings.shards`, and may leave ranks
/// without work.)
Schedule make_schedule(const ScheduleSettings& settings, int rank);

/// Who owns which of `shards` shards: each cluster the same consecutive range in every slot, ranges
/// of different clusters differing by at most one. Absent shards are not known here, and included.
/// `shards` and `ranks` are multiples of `cluster`.
std::vector<ShardRange> shard_owners(int shards, int ranks, int cluster);
/// Of those, the range of `rank`.
ShardRange shards_owned_by(int rank, int shards, int ranks, int cluster);

/// [turns][ranks] of dealt shards, absent ones included.
std::vector<ShardRange> dealt_shards(int shards, int ranks, int cluster);

/// The most shards that a run has where the user names none.
inline constexpr int kDefaultShards = 64;

/// The shards a run uses where the user names none: min(M, kDefaultShards), rounded down to a
/// multiple of the cluster, but at least one for each slot.
int default_shards(std::int64_t micro_batches, int cluster);

/// The most shards of kAutoShards.
inline constexpr int kMaxAutoShards = 1 << 16;

/// The shards of kAutoShards: as default_shards(), with kMaxAutoShards. Of M micro-batches up to
/// that, the rank that has most of N computes ceil(M / N), which no other number of shards makes
/// less. Of more, and N at most 1024, at most (1 + 1 / 64)^2 as many as the mean, as it has at most
/// one shard and one micro-batch more than the mean of at least 64 each.
int auto_shards(std::int64_t micro_batches, int cluster);

}  // namespace lockstep

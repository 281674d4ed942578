// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/schedule.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {
namespace {

// Boundary `index` of `total` things cut into `parts` ranges that differ by at most one, the larger
// ones spread evenly, so that cutting the ranges again stays balanced. No overflow: total is at
// most kMaxMicroBatches or an int, index at most an int.
std::int64_t boundary(std::int64_t total, std::int64_t index, std::int64_t parts) {
  return (total * index + parts - 1) / parts;
}

void check(const ScheduleSettings& s, int rank) {
  LOCKSTEP_CHECK(s.samples >= 1 && s.micro_batch >= 1,
                 ConfigError,
                 "schedule: {} samples in micro-batches of {}: both must be at least 1",
                 s.samples,
                 s.micro_batch);
  LOCKSTEP_CHECK(s.shards >= 1 && s.ranks >= 1 && s.cluster >= 1,
                 ConfigError,
                 "schedule: {} shards, {} ranks, clusters of {}: each must be at least 1",
                 s.shards,
                 s.ranks,
                 s.cluster);
  LOCKSTEP_CHECK(s.ranks % s.cluster == 0,
                 ConfigError,
                 "schedule: {} ranks form no whole clusters: the batch-norm group needs a multiple "
                 "of {} ranks",
                 s.ranks,
                 s.cluster);
  LOCKSTEP_CHECK(
      s.shards % s.cluster == 0,
      ConfigError,
      "schedule: {} shards cannot be dealt to clusters of {} ranks: use a multiple of {}",
      s.shards,
      s.cluster,
      s.cluster);
  LOCKSTEP_CHECK(s.ranks <= s.shards,
                 ConfigError,
                 "schedule: {} ranks but only {} shards: use at most {} ranks, more shards, or a "
                 "smaller micro-batch",
                 s.ranks,
                 s.shards,
                 s.shards);
  LOCKSTEP_CHECK(
      (s.samples - 1) / s.micro_batch < kMaxMicroBatches,
      ConfigError,
      "schedule: {} samples in micro-batches of {} are more than {} micro-batches: use a "
      "larger micro-batch",
      s.samples,
      s.micro_batch,
      kMaxMicroBatches);
  LOCKSTEP_ASSERT(rank >= 0 && rank < s.ranks);
}

int shards_up_to(int most, std::int64_t micro_batches, int cluster) {
  LOCKSTEP_ASSERT(cluster >= 1);
  const int shards = int(std::clamp<std::int64_t>(micro_batches, 1, most));
  return std::max(cluster, shards / cluster * cluster);
}

}  // namespace

ShardRange shards_owned_by(int rank, int shards, int ranks, int cluster) {
  LOCKSTEP_ASSERT(cluster >= 1 && shards % cluster == 0 && ranks % cluster == 0 && ranks >= 1);
  const int per_slot = shards / cluster, clusters = ranks / cluster;
  const int base = rank % cluster * per_slot, number = rank / cluster;
  return {base + int(boundary(per_slot, number, clusters)),
          base + int(boundary(per_slot, number + 1, clusters))};
}

std::vector<ShardRange> shard_owners(int shards, int ranks, int cluster) {
  std::vector<ShardRange> owners;
  owners.reserve(std::size_t(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    owners.push_back(shards_owned_by(rank, shards, ranks, cluster));
  return owners;
}

std::vector<ShardRange> dealt_shards(int shards, int ranks, int cluster) {
  LOCKSTEP_ASSERT(cluster >= 1 && shards % cluster == 0 && ranks % cluster == 0 && ranks >= 1);
  const int per_slot = shards / cluster, clusters = ranks / cluster;
  const int turns = (per_slot - 1) / clusters + 1;
  std::vector<ShardRange> owners;
  owners.reserve(std::size_t(turns) * std::size_t(ranks));
  for (int turn = 0; turn < turns; ++turn)
    for (int rank = 0; rank < ranks; ++rank) {
      const int number = turn * clusters + rank / cluster;
      const int shard = rank % cluster * per_slot + number;
      owners.push_back(number < per_slot ? ShardRange{shard, shard + 1} : ShardRange{});
    }
  return owners;
}

Schedule make_schedule(const ScheduleSettings& settings, int rank) {
  check(settings, rank);
  const std::int64_t k = settings.cluster;
  const std::int64_t micro_batches = (settings.samples - 1) / settings.micro_batch + 1;
  const std::int64_t rounds = (micro_batches - 1) / k + 1;
  const std::int64_t per_slot = std::min<std::int64_t>(settings.shards / k, rounds);

  // Shard s of a slot holds rounds [first_round(s), first_round(s + 1)); round r of slot j is
  // micro-batch r * k + j, which may not exist in the last round.
  const auto first_round = [&](std::int64_t shard) { return boundary(rounds, shard, per_slot); };
  const auto present = [&](int shard) {
    return first_round(shard % per_slot) * k + shard / per_slot < micro_batches;
  };

  Schedule schedule;
  schedule.samples = settings.samples;
  schedule.shards = int(per_slot * k);
  schedule.shards_of_rank = settings.dealt
                                ? dealt_shards(schedule.shards, settings.ranks, settings.cluster)
                                : shard_owners(schedule.shards, settings.ranks, settings.cluster);
  schedule.turns = int(schedule.shards_of_rank.size() / std::size_t(settings.ranks));
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const std::span<const ShardRange> owners = schedule.owners(turn);
    const auto rounds_of = [&](std::size_t in_slot_0) {
      const ShardRange& range = owners[in_slot_0];
      return int(first_round(range.last) - first_round(range.first));
    };
    int most = 0;
    for (std::size_t r = 0; r < owners.size(); r += std::size_t(k))
      most = std::max(most, rounds_of(r));
    schedule.most_rounds += most;
    schedule.rounds += rounds_of(std::size_t(rank - rank % int(k)));
  }
  for (ShardRange& range : schedule.shards_of_rank)
    if (!range.empty() && !present(range.last - 1)) --range.last;

  const auto compute = [&](int shard) {
    ShardWork& work = schedule.work.emplace_back();
    work.shard = shard;
    const std::int64_t s = shard % per_slot, slot = shard / per_slot;
    for (std::int64_t round = first_round(s); round < first_round(s + 1); ++round) {
      const std::int64_t micro_batch = round * k + slot;
      if (micro_batch >= micro_batches) break;
      const std::int64_t first = micro_batch * settings.micro_batch;
      work.micro_batches.push_back(
          {first, std::min(settings.micro_batch, settings.samples - first)});
    }
  };
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const ShardRange own = schedule.owners(turn)[std::size_t(rank)];
    for (int shard = own.first; shard < own.last; ++shard) compute(shard);
  }
  return schedule;
}

int default_shards(std::int64_t micro_batches, int cluster) {
  return shards_up_to(kDefaultShards, micro_batches, cluster);
}

int auto_shards(std::int64_t micro_batches, int cluster) {
  return shards_up_to(kMaxAutoShards, micro_batches, cluster);
}

}  // namespace lockstep

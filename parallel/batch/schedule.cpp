// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/schedule.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/host/shared_values.h"

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

/// Which micro-batches the shards of a step have. Shard s of a slot holds rounds
/// [first_round(s), first_round(s + 1)); round r of slot j is micro-batch r * k + j, which may not
/// exist in the last round.
struct ShardRounds {
  explicit ShardRounds(const ScheduleSettings& step)
      : settings(step),
        micro_batches((step.samples - 1) / step.micro_batch + 1),
        rounds((micro_batches - 1) / step.cluster + 1),
        per_slot(std::min<std::int64_t>(step.shards / step.cluster, rounds)) {}

  std::int64_t first_round(std::int64_t shard) const { return boundary(rounds, shard, per_slot); }
  bool present(int shard) const {
    return first_round(shard % per_slot) * settings.cluster + shard / per_slot < micro_batches;
  }
  ShardWork work_of(int shard) const {
    ShardWork work{.shard = shard, .micro_batches = {}};
    const std::int64_t s = shard % per_slot, slot = shard / per_slot;
    for (std::int64_t round = first_round(s); round < first_round(s + 1); ++round) {
      const std::int64_t micro_batch = round * settings.cluster + slot;
      if (micro_batch >= micro_batches) break;
      const std::int64_t first = micro_batch * settings.micro_batch;
      work.micro_batches.push_back(
          {first, std::min(settings.micro_batch, settings.samples - first)});
    }
    return work;
  }

  ScheduleSettings settings;
  std::int64_t micro_batches, rounds, per_slot;
};

/// Of a Schedule what does not depend on the rank.
struct CommonSchedule {
  explicit CommonSchedule(const ScheduleSettings& settings)
      : rounds(settings), shards(int(rounds.per_slot) * settings.cluster) {
    std::vector<ShardRange> ranges = settings.dealt
                                         ? dealt_shards(shards, settings.ranks, settings.cluster)
                                         : shard_owners(shards, settings.ranks, settings.cluster);
    const auto ranks = std::size_t(settings.ranks), k = std::size_t(settings.cluster);
    turns = int(ranges.size() / ranks);
    rounds_of_cluster.resize(ranks / k);
    for (std::size_t turn = 0; turn < ranges.size(); turn += ranks) {
      int most = 0;
      for (std::size_t cluster = 0; cluster < rounds_of_cluster.size(); ++cluster) {
        const ShardRange in_slot_0 = ranges[turn + cluster * k];
        const auto own =
            int(rounds.first_round(in_slot_0.last) - rounds.first_round(in_slot_0.first));
        rounds_of_cluster[cluster] += own;
        most = std::max(most, own);
      }
      most_rounds += most;
    }
    for (ShardRange& range : ranges)
      if (!range.empty() && !rounds.present(range.last - 1)) --range.last;
    owners = std::move(ranges);
  }

  ShardRounds rounds;
  int shards;
  int turns = 0, most_rounds = 0;
  std::vector<int> rounds_of_cluster;
  ShardRanges owners;
};

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
  static SharedValues<ScheduleSettings, CommonSchedule> shared;
  const auto common =
      shared.get(settings, [&] { return std::make_shared<const CommonSchedule>(settings); });
  Schedule schedule;
  schedule.samples = settings.samples;
  schedule.shards = common->shards;
  schedule.turns = common->turns;
  schedule.shards_of_rank = common->owners;
  schedule.rounds = common->rounds_of_cluster[std::size_t(rank / settings.cluster)];
  schedule.most_rounds = common->most_rounds;
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const ShardRange own = schedule.owners(turn)[std::size_t(rank)];
    for (int shard = own.first; shard < own.last; ++shard)
      schedule.work.push_back(common->rounds.work_of(shard));
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

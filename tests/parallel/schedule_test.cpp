// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <limits>
#include <map>

#include "core/base/random.h"
#include "lockstep/error.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

using Samples = std::vector<std::pair<std::int64_t, std::int64_t>>;
using ShardMap = std::map<int, Samples>;

Samples samples_of(const ShardWork& work) {
  Samples samples;
  for (const MicroBatch& m : work.micro_batches) samples.emplace_back(m.first_sample, m.samples);
  return samples;
}

std::vector<Schedule> all_ranks(const ScheduleSettings& settings) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < settings.ranks; ++rank)
    schedules.push_back(make_schedule(settings, rank));
  return schedules;
}

ShardMap shard_map(const std::vector<Schedule>& schedules) {
  ShardMap map;
  for (const Schedule& schedule : schedules)
    for (const ShardWork& work : schedule.work) {
      EXPECT_FALSE(map.contains(work.shard)) << "shard " << work.shard << " has two owners";
      map[work.shard] = samples_of(work);
    }
  return map;
}

// The documented leaf order, written down without a formula: deal, then read slot by slot.
Samples leaves_of(const ScheduleSettings& s) {
  std::vector<Samples> slots(std::size_t(s.cluster));
  int slot = 0;
  for (std::int64_t first = 0; first < s.samples; first += s.micro_batch) {
    slots[std::size_t(slot)].emplace_back(first, std::min(s.micro_batch, s.samples - first));
    slot = (slot + 1) % s.cluster;
  }
  Samples leaves;
  for (const Samples& dealt : slots) leaves.insert(leaves.end(), dealt.begin(), dealt.end());
  return leaves;
}

void expect_ranges_match_work(const std::vector<Schedule>& schedules) {
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    const Schedule& schedule = schedules[rank];
    const ShardRange own = schedule.shards_of_rank[rank];
    ASSERT_EQ(schedule.work.size(), std::size_t(std::max(0, own.last - own.first)));
    for (std::size_t i = 0; i < schedule.work.size(); ++i) {
      EXPECT_EQ(schedule.work[i].shard, own.first + int(i));
      EXPECT_FALSE(schedule.work[i].micro_batches.empty());
    }
    for (std::size_t other = 0; other < schedules.size(); ++other) {
      EXPECT_EQ(schedule.shards_of_rank[other].first, schedules[0].shards_of_rank[other].first);
      EXPECT_EQ(schedule.shards_of_rank[other].last, schedules[0].shards_of_rank[other].last);
    }
  }
}

void expect_balanced(const std::vector<Schedule>& schedules, int cluster) {
  int fewest = std::numeric_limits<int>::max(), most = 0;
  for (std::size_t rank = 0; rank < schedules.size(); rank += std::size_t(cluster)) {
    const int size = int(schedules[rank].work.size());  // Slot 0 never lacks the last round.
    fewest = std::min(fewest, size);
    most = std::max(most, size);
    int busiest = 0;
    for (std::size_t slot = 0; slot < std::size_t(cluster); ++slot) {
      int rounds = 0;
      for (const ShardWork& work : schedules[rank + slot].work)
        rounds += int(work.micro_batches.size());
      busiest = std::max(busiest, rounds);
      EXPECT_EQ(schedules[rank + slot].rounds, schedules[rank].rounds);
      EXPECT_GE(rounds, schedules[rank].rounds - 1) << "more than the last round is missing";
    }
    EXPECT_EQ(busiest, schedules[rank].rounds);
  }
  EXPECT_LE(most - fewest, 1);
}

// Sizes of shards, in rounds: by the longest of the slots' shards of equal number.
void expect_even_shards(const ShardMap& shards, int count, int cluster) {
  std::vector<std::size_t> rounds(std::size_t(count / cluster));
  for (const auto& [shard, samples] : shards) {
    std::size_t& longest = rounds[std::size_t(shard % (count / cluster))];
    longest = std::max(longest, samples.size());
  }
  EXPECT_LE(std::ranges::max(rounds) - std::ranges::min(rounds), 1u);
}

TEST(Schedule, HoldsItsPromisesOnRandomSettings) {
  RandomStream random(random_key(1, "schedule"), 0);
  for (int trial = 0; trial < 1000; ++trial) {
    ScheduleSettings s;
    s.micro_batch = 1 + random.below(5);
    s.samples = 1 + random.below(200);
    s.cluster = 1 + int(random.below(4));
    s.shards = s.cluster * (1 + int(random.below(20)));
    SCOPED_TRACE(::testing::Message() << s.samples << " samples, micro " << s.micro_batch << ", V "
                                      << s.shards << ", k " << s.cluster);
    s.ranks = s.cluster;
    const ShardMap expected = shard_map(all_ranks(s));
    Samples in_leaf_order;
    for (const auto& [shard, samples] : expected)
      in_leaf_order.insert(in_leaf_order.end(), samples.begin(), samples.end());
    EXPECT_EQ(in_leaf_order, leaves_of(s));

    for (; s.ranks <= s.shards; s.ranks += s.cluster) {
      SCOPED_TRACE(::testing::Message() << s.ranks << " ranks");
      const std::vector<Schedule> schedules = all_ranks(s);
      EXPECT_EQ(shard_map(schedules), expected);
      expect_ranges_match_work(schedules);
      expect_balanced(schedules, s.cluster);
      expect_even_shards(expected, schedules[0].shards, s.cluster);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Schedule, BlocksOfMicroBatchesDifferByOneWhereEachIsAShard) {
  for (int ranks = 1; ranks <= 10; ++ranks) {
    std::size_t fewest = 100, most = 0;
    for (const Schedule& schedule : all_ranks({.samples = 10, .shards = 10, .ranks = ranks})) {
      fewest = std::min(fewest, schedule.work.size());
      most = std::max(most, schedule.work.size());
    }
    EXPECT_LE(most - fewest, 1u) << ranks;
  }
}

TEST(Schedule, UnevenShardsAreSpreadOverTheRanks) {
  // 10 micro-batches in 8 shards on 2 ranks: 5 + 5, not 6 + 4.
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(make_schedule({.samples = 10, .shards = 8, .ranks = 2}, rank).rounds, 5);
}

TEST(Schedule, ShortLastBatchLeavesRanksWithoutWork) {
  const std::vector<Schedule> schedules =
      all_ranks({.samples = 5, .micro_batch = 4, .shards = 8, .ranks = 4});
  EXPECT_EQ(schedules[0].shards, 2);
  std::size_t micro_batches = 0, idle = 0;
  for (const Schedule& schedule : schedules) {
    micro_batches += schedule.work.size();
    idle += schedule.work.empty() && schedule.rounds == 0;
  }
  EXPECT_EQ(micro_batches, 2u);
  EXPECT_EQ(idle, 2u);
}

TEST(Schedule, MissingLastRoundMakesAnAbsentShard) {
  // Micro-batches 0..4 dealt to 2 slots: 0 2 4 and 1 3; three shards a slot, the sixth is absent.
  const std::vector<Schedule> schedules =
      all_ranks({.samples = 5, .shards = 6, .ranks = 2, .cluster = 2});
  EXPECT_EQ(schedules[0].shards, 6);
  EXPECT_EQ(schedules[0].shards_of_rank[1].first, 3);
  EXPECT_EQ(schedules[0].shards_of_rank[1].last, 5);
  EXPECT_EQ(schedules[1].rounds, 3);
  EXPECT_EQ(schedules[1].work.size(), 2u);
  // Fewer micro-batches than slots: whole slots are absent.
  const std::vector<Schedule> one =
      all_ranks({.samples = 1, .shards = 6, .ranks = 6, .cluster = 2});
  EXPECT_EQ(shard_map(one), (ShardMap{{0, {{0, 1}}}}));
}

TEST(Schedule, LargeNumbersDoNotOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const ScheduleSettings s{.samples = kMax, .micro_batch = kMax / 3, .shards = 64, .ranks = 2};
  const ShardMap map = shard_map(all_ranks(s));
  std::int64_t next = 0;
  for (const auto& [shard, samples] : map)
    for (const auto& [first, count] : samples) {
      EXPECT_EQ(first, next);
      next += count;
    }
  EXPECT_EQ(next, kMax);
  EXPECT_THROW(make_schedule({.samples = kMax, .shards = 64}, 0), ConfigError);
}

TEST(Schedule, RejectsWhatCannotWork) {
  EXPECT_THROW(make_schedule({.samples = 0}, 0), ConfigError);
  EXPECT_THROW(make_schedule({.samples = 4, .micro_batch = 0}, 0), ConfigError);
  EXPECT_THROW(make_schedule({.samples = 4, .shards = 0}, 0), ConfigError);
  EXPECT_THROW(make_schedule({.samples = 8, .shards = 6, .ranks = 3, .cluster = 2}, 0),
               ConfigError);
  EXPECT_THROW(make_schedule({.samples = 8, .shards = 5, .ranks = 2, .cluster = 2}, 0),
               ConfigError);
  EXPECT_THROW(make_schedule({.samples = 8, .shards = 2, .ranks = 3}, 0), ConfigError);
  EXPECT_THROW(make_schedule({.samples = 8, .shards = 2, .ranks = 2}, 2), InternalError);
}

TEST(Schedule, DefaultShards) {
  EXPECT_EQ(default_shards(5, 1), 5);
  EXPECT_EQ(default_shards(1000, 1), 64);
  EXPECT_EQ(default_shards(1000, 3), 63);
  EXPECT_EQ(default_shards(10, 4), 8);
  EXPECT_EQ(default_shards(2, 4), 4);
  EXPECT_EQ(default_shards(std::numeric_limits<std::int64_t>::max(), 100), 100);
}

// The same shards, one after another to each cluster: as sharded gradients are summed.
TEST(Schedule, DealsTheSameShards) {
  for (const int cluster : {1, 2, 3})
    for (const int clusters : {1, 2, 5})
      for (const int shards : {clusters * cluster, 30, 60})
        for (const std::int64_t samples : {3, 31, 60, 121}) {
          ScheduleSettings s{.samples = samples,
                             .micro_batch = 2,
                             .shards = shards,
                             .ranks = clusters * cluster,
                             .cluster = cluster};
          const ShardMap consecutive = shard_map(all_ranks(s));
          s.dealt = true;
          const std::vector<Schedule> dealt = all_ranks(s);
          EXPECT_EQ(shard_map(dealt), consecutive);
          for (const Schedule& schedule : dealt) {
            const auto rank = std::size_t(&schedule - dealt.data());
            EXPECT_EQ(schedule.turns, (schedule.shards / cluster - 1) / clusters + 1);
            std::size_t own = 0;
            for (int turn = 0; turn < schedule.turns; ++turn) {
              const ShardRange range = schedule.owners(turn)[rank];
              // Shards are missing in the last turn alone.
              EXPECT_TRUE(!range.empty() || turn + 1 == schedule.turns);
              if (range.empty()) continue;
              ASSERT_LT(own, schedule.work.size());
              EXPECT_EQ(range.last - range.first, 1);
              EXPECT_EQ(schedule.work[own++].shard, range.first);
            }
            EXPECT_EQ(own, schedule.work.size());
            EXPECT_EQ(schedule.most_rounds, dealt[0].most_rounds);
            EXPECT_LE(schedule.rounds, schedule.most_rounds);
          }
        }
}

}  // namespace
}  // namespace lockstep

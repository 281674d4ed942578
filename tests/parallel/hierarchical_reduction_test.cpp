// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/hierarchical_reduction.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "core/base/random.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/ranks_per_host.h"
#include "parallel/exchange/exchange_plan.h"
#include "tests/parallel/naive_tree.h"

namespace lockstep {
namespace {

using testing::Leaves;
using testing::naive_tree;

std::vector<ExchangePlan> plans_of_all(const std::vector<ShardRange>& owners,
                                       int shards,
                                       int per_host) {
  std::vector<ExchangePlan> plans;
  for (int rank = 0; rank < int(owners.size()); ++rank)
    plans.push_back(make_exchange_plan(shards, owners, rank, per_host, Reduction::reproducible));
  return plans;
}

/// Whether some stretch first << level, of 1 << level shards, has all shards of the ranks, at least
/// one, and no other.
bool is_one_node(const std::vector<ShardRange>& owners, int shards, int from, int to) {
  std::vector<int> owner(std::size_t(shards), -1);
  for (int r = 0; r < int(owners.size()); ++r)
    for (int s = owners[std::size_t(r)].first; s < owners[std::size_t(r)].last; ++s)
      owner[std::size_t(s)] = r;
  const auto ours = [&](int r) { return r >= from && r < to; };
  const auto all = std::ranges::count_if(owner, ours);
  for (int size = 1; size < 2 * shards; size *= 2)
    for (int first = 0; first < shards; first += size) {
      const auto begin = owner.begin() + first,
                 end = owner.begin() + std::min(first + size, shards);
      const bool no_other = std::none_of(begin, end, [&](int r) { return r >= 0 && !ours(r); });
      if (all > 0 && no_other && std::count_if(begin, end, ours) == all) return true;
    }
  return false;
}

bool holds_nodes(const std::vector<ShardRange>& owners, int shards, int per_host) {
  for (int first = 0; first < int(owners.size()); first += per_host)
    if (!is_one_node(owners, shards, first, first + per_host)) return false;
  return true;
}

/// Chunks that `rank` receives at once, on one level and on two.
int received_on_one(const ExchangePlan& plan) { return plan.size.nodes - plan.size.own_nodes; }
int received_on_two(const ExchangePlan& plan) {
  const LevelPlan &host = plan.by_host[0], &across = plan.by_host[1];
  return std::max((host.nodes() - plan.size.own_nodes) * host.chunks, across.nodes() - 1);
}

std::vector<float> own_sums(const ExchangePlan& plan, const Leaves& leaves, ShardRange own) {
  std::vector<float> stack;
  for (int shard = own.first; shard < own.last; ++shard) {
    stack.push_back(leaves[std::size_t(shard)].value());
    for (int m = 0; m < plan.local.merges[std::size_t(shard - own.first)]; ++m) {
      const float top = stack.back();
      stack.pop_back();
      stack.back() += top;
    }
  }
  return stack;
}

float finish(const LevelPlan& level, const std::vector<float>& operands) {
  EXPECT_EQ(level.nodes(), int(operands.size()));
  std::vector<float> stack;
  for (const auto [operand, merges] : level.finish.leaves) {
    stack.push_back(operands[std::size_t(operand)]);
    for (int m = 0; m < merges; ++m) {
      const float top = stack.back();
      stack.pop_back();
      stack.back() += top;
    }
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.front();
}

float sum_on_two_levels(const std::vector<ExchangePlan>& plans,
                        const std::vector<ShardRange>& owners,
                        const Leaves& leaves,
                        std::size_t per_host) {
  std::vector<float> of_hosts;
  for (std::size_t first = 0; first < plans.size(); first += per_host) {
    std::vector<float> operands;
    for (std::size_t r = first; r < first + per_host; ++r) {
      const std::vector<float> own = own_sums(plans[r], leaves, owners[r]);
      operands.insert(operands.end(), own.begin(), own.end());
    }
    of_hosts.push_back(finish(plans[first].by_host[0], operands));
  }
  return finish(plans[0].by_host[1], of_hosts);
}

/// The chunks that ranks finish are those of a bucket, each once.
void expect_all_chunks(const std::vector<ExchangePlan>& plans, int per_host) {
  std::vector<int> chunks;
  for (int rank = 0; rank < int(plans.size()); ++rank) {
    const LevelPlan &host = plans[std::size_t(rank)].by_host[0],
                    &across = plans[std::size_t(rank)].by_host[1];
    EXPECT_EQ(host.members(), per_host);
    EXPECT_EQ(across.members() * per_host, int(plans.size()));
    EXPECT_EQ(across.first_chunk, host.first_chunk + rank % per_host * host.chunks);
    EXPECT_EQ(across.members() * across.chunks, host.chunks);
    chunks.push_back(across.first_chunk + rank / per_host * across.chunks);
  }
  std::ranges::sort(chunks);
  for (int c = 0; c < int(chunks.size()); ++c) EXPECT_EQ(chunks[std::size_t(c)], c);
}

struct Counts {
  int two_levels = 0, one_level = 0, too_much_memory = 0;
};

void check_plans(const std::vector<ShardRange>& owners, int shards, int per_host, Counts& counts) {
  const int ranks = int(owners.size());
  const PresentLeaves present(owners, shards);
  const bool held = holds_nodes(owners, shards, per_host);
  ASSERT_EQ(!host_nodes(present, owners, per_host).empty(), held) << shards << " on " << ranks;
  const std::vector<ExchangePlan> plans = plans_of_all(owners, shards, per_host);
  const bool two = !plans[0].by_host.empty();
  ASSERT_EQ(has_host_levels(shards, owners, per_host, Reduction::reproducible), two);
  for (const ExchangePlan& plan : plans) {
    ASSERT_EQ(!plan.by_host.empty(), two) << "ranks differ";
    ASSERT_TRUE(!two || received_on_two(plan) <= received_on_one(plan));
  }
  ASSERT_TRUE(held || !two);
  if (!two) return void(++(held ? counts.too_much_memory : counts.one_level));
  ++counts.two_levels;
  expect_all_chunks(plans, per_host);
  Leaves leaves(std::size_t(shards), std::nullopt);
  RandomStream random(random_key(7, "leaves"), std::uint64_t(shards));
  for (const ShardRange& own : owners)
    for (int s = own.first; s < own.last; ++s)
      leaves[std::size_t(s)] = random.uniform(-1, 1) * float(1 << random.below(20));
  ASSERT_EQ(sum_on_two_levels(plans, owners, leaves, std::size_t(per_host)),
            naive_tree(leaves, 0, shards).value())
      << shards << " on " << ranks << ", " << per_host << " a host";
}

TEST(LevelPlan, HostsThatHoldNodesOfTheTreeGoFirst) {
  Counts counts;
  for (int per_host = 2; per_host <= 8; ++per_host)
    for (int hosts = 2; hosts <= 5; ++hosts)
      for (int cluster = 1; cluster <= per_host * hosts; ++cluster) {
        const int ranks = per_host * hosts;
        if (ranks % cluster != 0) continue;
        for (int shards = cluster; shards <= 66; shards += cluster) {
          const int denied = counts.too_much_memory;
          ASSERT_NO_FATAL_FAILURE(
              check_plans(shard_owners(shards, ranks, cluster), shards, per_host, counts));
          ASSERT_TRUE(counts.too_much_memory == denied || shards % ranks != 0);
        }
      }
  EXPECT_GT(counts.two_levels, 50);
  EXPECT_GT(counts.one_level, 1000);
  EXPECT_LT(counts.too_much_memory, 100) << "last batches that leave ranks without shards";
}

TEST(LevelPlan, AbsentShardsAndUnevenRanks) {
  Counts counts;
  RandomStream random(random_key(5, "owners"), 0);
  for (int trial = 0; trial < 4000; ++trial) {
    const int per_host = 2 + int(random.below(3)), hosts = 2 + int(random.below(3));
    const int level = int(random.below(4)), shards = hosts << level;
    std::vector<ShardRange> owners;
    for (int host = 0; host < hosts; ++host) {
      std::vector<int> cuts{0, 1 << level};
      for (int i = 1; i < per_host; ++i) cuts.push_back(int(random.below((1u << level) + 1)));
      std::ranges::sort(cuts);
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        ShardRange own{(host << level) + cuts[i], (host << level) + cuts[i + 1]};
        if (!own.empty() && random.below(8) == 0) --own.last;
        owners.push_back(own);
      }
    }
    if (std::ranges::all_of(owners, &ShardRange::empty)) continue;
    if (random.below(8) == 0) std::swap(owners.front(), owners.back());
    ASSERT_NO_FATAL_FAILURE(check_plans(owners, shards, per_host, counts));
  }
  EXPECT_GT(counts.two_levels, 1000);
  EXPECT_GT(counts.one_level, 100);
  EXPECT_GT(counts.too_much_memory, 10);
}

bool has_levels(int shards, int ranks, int per_host, int cluster = 1) {
  const std::vector<ShardRange> owners = shard_owners(shards, ranks, cluster);
  return !make_exchange_plan(shards, owners, 0, per_host, Reduction::reproducible).by_host.empty();
}

TEST(LevelPlan, Examples) {
  EXPECT_TRUE(has_levels(16, 4, 2));
  EXPECT_TRUE(has_levels(4, 4, 2));
  EXPECT_TRUE(has_levels(7, 4, 2)) << "the last shard is missing";
  EXPECT_TRUE(has_levels(64, 32, 8));
  EXPECT_TRUE(has_levels(16, 6, 3));
  EXPECT_TRUE(has_levels(12, 6, 2)) << "hosts of four shards each";
  EXPECT_FALSE(has_levels(12, 4, 2)) << "the tree has 8 and 4";
  EXPECT_FALSE(has_levels(2, 8, 2)) << "hosts without shards";
  EXPECT_FALSE(has_levels(16, 4, 1)) << "a host for each rank";
  EXPECT_FALSE(has_levels(16, 4, 4)) << "one host";
  EXPECT_FALSE(has_levels(16, 4, 3));
  EXPECT_FALSE(has_levels(16, 4, 2, 2)) << "slots of a cluster are apart in the tree";
  EXPECT_TRUE(has_levels(16, 4, 2, 4)) << "one cluster: each slot has a quarter";
  const std::vector<ShardRange> owners = shard_owners(16, 4, 1);
  EXPECT_TRUE(make_exchange_plan(16, owners, 0, 2, Reduction::fast).by_host.empty());
}

TEST(LevelPlan, RanksPerHostWhereHostsAreAlike) {
  const auto of = [](std::vector<int> hosts) { return uniform_ranks_per_host(hosts); };
  EXPECT_EQ(of({0}), 1);
  EXPECT_EQ(of({0, 0, 0, 0}), 4);
  EXPECT_EQ(of({0, 0, 2, 2}), 2);
  EXPECT_EQ(of({3, 3, 3, 0, 0, 0}), 3);
  EXPECT_EQ(of({0, 1, 2}), 1);
  EXPECT_EQ(of({0, 0, 2, 2, 2, 2}), 6) << "one host seems to come twice";
  EXPECT_EQ(of({0, 0, 2, 2, 0, 0}), 6);
  EXPECT_EQ(of({0, 1, 0, 1}), 4) << "dealt in turn";
  EXPECT_EQ(of({0, 0, 0, 3}), 4) << "uneven";
  EXPECT_EQ(of({0, 0, 2}), 3);
  EXPECT_EQ(of({0, 0, 2, 3}), 4);
}

}  // namespace
}  // namespace lockstep

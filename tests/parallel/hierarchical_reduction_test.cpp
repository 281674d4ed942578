// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/hierarchical_reduction.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <numeric>

#include "core/base/random.h"
#include "parallel/batch/schedule.h"
#include "parallel/comm/ranks_per_host.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/host_traffic.h"
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

/// -1: absent.
std::vector<int> owner_of_shards(const std::vector<ShardRange>& owners, int shards) {
  std::vector<int> owner(std::size_t(shards), -1);
  for (int r = 0; r < int(owners.size()); ++r)
    for (int s = owners[std::size_t(r)].first; s < owners[std::size_t(r)].last; ++s)
      owner[std::size_t(s)] = r;
  return owner;
}

/// How many of the stretches first << level, of 1 << level shards, have shards of the ranks `from`
/// up to `to`, no present one of others, and lie in no larger one like that.
int count_nodes(const std::vector<int>& owner, int from, int to) {
  const int shards = int(owner.size());
  const auto alone = [&](int first, int size) {
    bool any = false;
    for (int s = first; s < std::min(first + size, shards); ++s) {
      const int r = owner[std::size_t(s)];
      if (r >= 0 && (r < from || r >= to)) return false;
      any = any || r >= 0;
    }
    return any;
  };
  int count = 0, size = 1;
  for (; size < shards; size *= 2)
    for (int first = 0; first < shards; first += size)
      count += alone(first, size) && !alone(first / (2 * size) * 2 * size, 2 * size);
  return count + alone(0, size);
}

std::vector<int> count_nodes_of(const std::vector<int>& owner, int ranks, int per_part) {
  std::vector<int> counts;
  for (int first = 0; first < ranks; first += per_part)
    counts.push_back(count_nodes(owner, first, first + per_part));
  return counts;
}

int sum_of(const std::vector<int>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
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

float finish(const NodeSum& sum, const std::vector<float>& operands) {
  std::vector<float> stack;
  for (const auto [operand, merges] : sum.finish.leaves) {
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
    const LevelPlan& on_host = plans[first].on_host;
    EXPECT_EQ(on_host.nodes(), int(operands.size()));
    for (const NodeSum& sum : on_host.sums) of_hosts.push_back(finish(sum, operands));
  }
  const LevelPlan& across = plans[0].across_hosts();
  EXPECT_EQ(across.nodes(), int(of_hosts.size()));
  EXPECT_EQ(across.sums.size(), 1u);
  return finish(across.sums.front(), of_hosts);
}

/// The chunks that ranks finish are those of a bucket, each once.
void expect_all_chunks(const std::vector<ExchangePlan>& plans, int per_host) {
  std::vector<int> chunks;
  for (int rank = 0; rank < int(plans.size()); ++rank) {
    const LevelPlan &host = plans[std::size_t(rank)].on_host,
                    &across = plans[std::size_t(rank)].across_hosts();
    EXPECT_EQ(host.members(), per_host);
    EXPECT_EQ(across.members() * per_host, int(plans.size()));
    EXPECT_EQ(across.members() * across.chunks, host.chunks);
    chunks.push_back(rank % per_host * host.chunks + rank / per_host * across.chunks);
  }
  std::ranges::sort(chunks);
  for (int c = 0; c < int(chunks.size()); ++c) EXPECT_EQ(chunks[std::size_t(c)], c);
}

/// Shards that the ranks have, where they are consecutive; 0 where they are not, or none.
int run_length(const std::vector<int>& owner, int from, int to) {
  int first = -1, last = -1, count = 0;
  for (int s = 0; s < int(owner.size()); ++s) {
    if (owner[std::size_t(s)] < from || owner[std::size_t(s)] >= to) continue;
    first = first < 0 ? s : first;
    last = s;
    ++count;
  }
  return count > 0 && last - first + 1 == count ? count : 0;
}

/// Note [Two levels] and what it derives, word for word: chunks that leave the hosts on one level
/// and on two, and the nodes of a run.
void expect_off_host_bounds(const std::vector<int>& owner,
                            const std::vector<int>& of_ranks,
                            const std::vector<int>& of_hosts,
                            int per_host) {
  const int ranks = int(of_ranks.size()), hosts = int(of_hosts.size());
  for (int host = 0; host < hosts; ++host) {
    const auto begin = of_ranks.begin() + host * per_host;
    const int here = std::accumulate(begin, begin + per_host, 0);
    const int nodes = of_hosts[std::size_t(host)];
    const int on_one = (ranks - per_host) * (here + per_host);
    const int on_two = per_host * (hosts - 1) * (nodes + 1);
    ASSERT_LE(nodes, here);
    ASSERT_LT(on_two, on_one) << "host " << host;
    const int run = run_length(owner, host * per_host, (host + 1) * per_host);
    ASSERT_TRUE(run == 0 || nodes <= max_run_nodes(run)) << "host " << host;
  }
}

void check_plans(const std::vector<ShardRange>& owners, int shards, int per_host) {
  const int ranks = int(owners.size()), hosts = ranks / per_host;
  SCOPED_TRACE(fmt::format("{} shards on {} ranks, {} a host", shards, ranks, per_host));
  const std::vector<int> owner = owner_of_shards(owners, shards);
  const std::vector<int> of_ranks = count_nodes_of(owner, ranks, 1),
                         of_hosts = count_nodes_of(owner, ranks, per_host);
  ASSERT_EQ(host_node_counts(PresentLeaves(owners, shards), owners, per_host), of_hosts);
  ASSERT_NO_FATAL_FAILURE(expect_off_host_bounds(owner, of_ranks, of_hosts, per_host));

  const std::vector<ExchangePlan> plans = plans_of_all(owners, shards, per_host);
  for (int rank = 0; rank < ranks; ++rank) {
    const ExchangePlan& plan = plans[std::size_t(rank)];
    ASSERT_TRUE(plan.has_two_levels());
    const int host = rank / per_host;
    const auto begin = of_ranks.begin() + host * per_host;
    const int others = std::accumulate(begin, begin + per_host, 0) - of_ranks[std::size_t(rank)];
    ASSERT_EQ(plan.size.received_chunks,
              others * hosts + sum_of(of_hosts) - of_hosts[std::size_t(host)]);
    const ExchangeSize reserved = exchange_size(shards, owners, rank, Reduction::reproducible);
    ASSERT_GE(reserved.received_chunks, plan.size.received_chunks);
    ASSERT_GE(reserved.received_chunks, plan.size.nodes - plan.size.own_nodes);
  }
  expect_all_chunks(plans, per_host);
  Leaves leaves(std::size_t(shards), std::nullopt);
  RandomStream random(random_key(7, "leaves"), std::uint64_t(shards));
  for (const ShardRange& own : owners)
    for (int s = own.first; s < own.last; ++s)
      leaves[std::size_t(s)] = random.uniform(-1, 1) * float(1 << random.below(20));
  ASSERT_EQ(sum_on_two_levels(plans, owners, leaves, std::size_t(per_host)),
            naive_tree(leaves, 0, shards).value());
}

TEST(LevelPlan, AnyNumberOfHostsSumsFirst) {
  for (int per_host = 2; per_host <= 8; ++per_host)
    for (const int hosts : {2, 3, 4, 5, 6, 7, 12})
      for (int cluster = 1; cluster <= per_host * hosts; ++cluster) {
        const int ranks = per_host * hosts;
        if (ranks % cluster != 0 || (hosts > 5 && cluster > 2 && cluster != ranks)) continue;
        // Odd strides reach shards of all kinds.
        const int stride = ranks > 20 ? 7 * cluster : cluster;
        for (int shards = cluster; shards <= 130; shards += stride)
          ASSERT_NO_FATAL_FAILURE(
              check_plans(shard_owners(shards, ranks, cluster), shards, per_host));
      }
}

TEST(LevelPlan, AbsentShardsAndUnevenRanks) {
  RandomStream random(random_key(5, "owners"), 0);
  for (int trial = 0; trial < 4000; ++trial) {
    const int per_host = 2 + int(random.below(3)), hosts = 2 + int(random.below(4));
    const int shards = hosts + int(random.below(60));
    std::vector<int> cuts{0, shards};
    for (int i = 1; i < per_host * hosts; ++i)
      cuts.push_back(int(random.below(std::uint32_t(shards) + 1)));
    std::ranges::sort(cuts);
    std::vector<ShardRange> owners;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      ShardRange own{cuts[i], cuts[i + 1]};
      if (!own.empty() && random.below(8) == 0) --own.last;
      owners.push_back(own);
    }
    if (std::ranges::all_of(owners, &ShardRange::empty)) continue;
    if (random.below(8) == 0) std::swap(owners.front(), owners.back());
    ASSERT_NO_FATAL_FAILURE(check_plans(owners, shards, per_host));
  }
}

// At most 2 log2(L + 2) - 2, and some run of at most L shards has as many as max_run_nodes() says.
TEST(LevelPlan, NodesOfARun) {
  const int shards = 512;
  int most = 0;
  for (int length = 1; length <= 130; ++length) {
    for (int first = 0; first + length < shards / 2; ++first) {
      const std::vector<ShardRange> owners{
          {0, first}, {first, first + length}, {first + length, shards}};
      most = std::max(most, local_nodes(PresentLeaves(owners, shards), owners[1]));
    }
    EXPECT_EQ(most, max_run_nodes(length)) << length;
    EXPECT_LE(most, std::max(1.0, 2 * std::log2(length + 2) - 2)) << length;
  }
}

// On one level a rank receives a chunk for each node of others. On two those of its host, H chunks
// each, and the nodes of other hosts: with at most m shards a rank, nodes of ranks are at most
// max_run_nodes(m), those of hosts max_run_nodes(R m).
TEST(LevelPlan, ReceivesWhatTheBoundAllows) {
  for (int ranks = 4; ranks <= 96; ++ranks)
    for (const int shards : {ranks, ranks + 1, 2 * ranks - 1, 3 * ranks, 64, 240, 1024}) {
      if (shards < ranks) continue;
      const std::vector<ShardRange> owners = shard_owners(shards, ranks, 1);
      const int most = (shards - 1) / ranks + 1;
      std::int64_t bound = (ranks - 1) * max_run_nodes(most);
      for (int per_host = 2; per_host < ranks; ++per_host)
        if (has_two_levels(ranks, per_host))
          bound = std::max(bound,
                           std::int64_t(per_host - 1) * (ranks / per_host) * max_run_nodes(most) +
                               (ranks / per_host - 1) * max_run_nodes(per_host * most));
      for (const int rank : {0, ranks / 2, ranks - 1})
        ASSERT_LE(exchange_size(shards, owners, rank, Reduction::reproducible).received_chunks,
                  bound)
            << shards << " on " << ranks;
    }
}

bool has_levels(int shards, int ranks, int per_host, Reduction reduction) {
  const std::vector<ShardRange> owners = shard_owners(shards, ranks, 1);
  return make_exchange_plan(shards, owners, 0, per_host, reduction).has_two_levels();
}

TEST(LevelPlan, Examples) {
  const auto hosts = [](int shards, int ranks, int per_host, int cluster = 1) {
    const std::vector<ShardRange> owners = shard_owners(shards, ranks, cluster);
    return host_node_counts(PresentLeaves(owners, shards), owners, per_host);
  };
  using Counts = std::vector<int>;
  EXPECT_EQ(hosts(16, 4, 2), (Counts{1, 1}));
  EXPECT_EQ(hosts(7, 4, 2), (Counts{1, 1})) << "the last shard is missing";
  EXPECT_EQ(hosts(12, 6, 2), (Counts{1, 1, 1})) << "hosts of four shards each";
  EXPECT_EQ(hosts(12, 4, 2), (Counts{2, 2})) << "4 + 2 and 2 + 4";
  EXPECT_EQ(hosts(64, 24, 8), (Counts{3, 5, 3})) << "22, 21 and 21 shards";
  EXPECT_EQ(hosts(2, 8, 2), (Counts{1, 0, 1, 0})) << "hosts without shards";
  EXPECT_EQ(hosts(16, 4, 2, 2), (Counts{2, 2})) << "slots of a cluster are apart in the tree";
  EXPECT_TRUE(has_levels(64, 24, 8, Reduction::reproducible));
  EXPECT_FALSE(has_levels(16, 4, 1, Reduction::reproducible)) << "a host for each rank";
  EXPECT_FALSE(has_levels(16, 4, 4, Reduction::reproducible)) << "one host";
  EXPECT_FALSE(has_levels(16, 4, 3, Reduction::reproducible)) << "hosts of 3 and of 1";
  EXPECT_FALSE(has_levels(16, 4, 2, Reduction::fast));
}

// What ExchangeLevel and SmallBucketAllGather send, counted message by message.
struct HostBytes {
  std::vector<double> sent, received;
};
void add_message(HostBytes& bytes, int from, int to, int per_host, double count) {
  if (from / per_host == to / per_host) return;
  bytes.sent[std::size_t(from / per_host)] += count;
  bytes.received[std::size_t(to / per_host)] += count;
}

HostBytes count_messages(const std::vector<ShardRange>& owners,
                         int shards,
                         int per_host,
                         double small_bytes,
                         double chunk_bytes,
                         bool two_levels) {
  const int ranks = int(owners.size()), hosts = (ranks - 1) / per_host + 1;
  const std::vector<int> owner = owner_of_shards(owners, shards);
  const std::vector<int> of_ranks = count_nodes_of(owner, ranks, 1),
                         of_hosts = count_nodes_of(owner, ranks, per_host);
  HostBytes bytes{std::vector<double>(std::size_t(hosts)), std::vector<double>(std::size_t(hosts))};
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      const int nodes = of_ranks[std::size_t(from)];
      add_message(bytes, from, to, per_host, nodes * small_bytes);
      if (!two_levels)
        add_message(bytes, from, to, per_host, (nodes + 1) * chunk_bytes);
      else if (from % per_host == to % per_host)
        add_message(
            bytes, from, to, per_host, (of_hosts[std::size_t(from / per_host)] + 1) * chunk_bytes);
    }
  return bytes;
}

TEST(HostTraffic, AddsUpTheMessagesBetweenHosts) {
  const std::int64_t small = 1000;
  for (const int ranks : {2, 6, 12, 13, 24})
    for (int per_host = 1; per_host <= ranks; ++per_host)
      for (const int shards : {ranks, ranks + 1, 64}) {
        const std::int64_t chunk = 4096;
        const std::vector<ShardRange> owners = shard_owners(shards, ranks, 1);
        for (const bool sharded : {false, true}) {
          const Bucket buckets[] = {{0, small}, {small, chunk * ranks * 8, sharded}};
          const bool two = has_two_levels(ranks, per_host);
          const HostBytes expected =
              count_messages(owners, shards, per_host, small * 4.0, chunk * 8 * 4.0, two);
          const HostTraffic traffic =
              host_traffic(buckets, shards, owners, per_host, Reduction::reproducible);
          EXPECT_EQ(traffic.levels, two ? 2 : 1);
          EXPECT_EQ(traffic.hosts, int(expected.sent.size()));
          // Sums of whole numbers below 2^53, but for divisions by ranks and hosts.
          const double all = std::accumulate(expected.sent.begin(), expected.sent.end(), 0.0);
          EXPECT_NEAR(traffic.all, all, 1e-12 * all) << shards << " on " << ranks;
          const double most =
              std::max(std::ranges::max(expected.sent), std::ranges::max(expected.received));
          EXPECT_NEAR(traffic.busiest, most, 1e-12 * most);
        }
      }
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

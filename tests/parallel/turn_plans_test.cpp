// SPDX-License-Identifier: Apache-2.0
// Sums that owners keep between turns, on one value a shard: the bits of the tree, in the places
// there are.
#include "parallel/exchange/turn_plans.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/plan/ownership.h"
#include "parallel/batch/schedule.h"
#include "tests/parallel/naive_tree.h"

namespace lockstep {
namespace {

using testing::Leaves;

/// Sums whose rounding depends on their order.
float value_of(int shard) { return 1.0f / float(3 + 7 * shard % 31) * float(1 << shard % 11); }

float sum_of(const FinishTree& finish, const std::vector<float>& operands) {
  std::vector<float> stack;
  for (const FinishTree::Leaf& leaf : finish.leaves) {
    stack.push_back(operands[std::size_t(leaf.operand)]);
    for (int merge = 0; merge < leaf.merges; ++merge) {
      const float top = stack.back();
      stack.pop_back();
      stack.back() += top;
    }
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.front();
}

/// What a level leaves in the places and, with place -1, returns.
std::optional<float> run_level(const LevelPlan& level,
                               std::vector<float> operands,
                               std::vector<float>& places) {
  for (const int place : level.kept) operands.push_back(places.at(std::size_t(place)));
  EXPECT_EQ(int(operands.size()), level.operands());
  std::optional<float> whole;
  // In order: a sum may stand where an operand of one before stood.
  for (std::size_t i = 0; i < level.sums.size(); ++i) {
    std::vector<float> now = operands;
    for (std::size_t k = 0; k < level.kept.size(); ++k)
      now[std::size_t(level.nodes()) + k] = places.at(std::size_t(level.kept[k]));
    const float sum = sum_of(level.sums[i].finish, now);
    if (level.places[i] < 0)
      whole = sum;
    else
      places.at(std::size_t(level.places[i])) = sum;
  }
  return whole;
}

std::vector<float> leaves_of(std::span<const ShardRange> owners) {
  std::vector<float> leaves;
  for (const ShardRange& own : owners)
    if (!own.empty()) leaves.push_back(value_of(own.first));
  return leaves;
}

void expect_tree(const ScheduleSettings& settings, int per_host) {
  const Schedule schedule = make_schedule(settings, 0);
  Leaves leaves(std::size_t(schedule.shards));
  for (const ShardRange& own : schedule.shards_of_rank)
    for (int shard = own.first; shard < own.last; ++shard)
      leaves[std::size_t(shard)] = value_of(shard);
  const std::optional<float> expected = testing::naive_tree(leaves, 0, schedule.shards);

  const auto kept = std::size_t(max_kept_sums(settings.shards, settings.ranks, settings.cluster));
  std::vector<float> places(kept), host_places(kept);
  std::optional<float> whole, of_hosts;
  const bool has_hosts = has_two_levels(settings.ranks, per_host);
  const std::vector<ExchangePlan> plans = make_turn_plans(schedule, 0, per_host);
  ASSERT_EQ(int(plans.size()), schedule.turns);
  std::vector<std::vector<ExchangePlan>> of_host;
  for (int rank = 0; has_hosts && rank < settings.ranks; rank += per_host)
    of_host.push_back(make_turn_plans(schedule, rank, per_host));
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const ExchangePlan& plan = plans[std::size_t(turn)];
    const std::span<const ShardRange> owners = schedule.owners(turn);
    EXPECT_EQ(plan.common->keeps, turn + 1 < schedule.turns);
    whole = run_level(plan.all(), leaves_of(owners), places);
    EXPECT_EQ(whole.has_value(), !plan.common->keeps);
    if (!has_hosts) continue;
    std::vector<float> sums;
    for (std::size_t host = 0; host < of_host.size(); ++host) {
      const LevelPlan& on_host = of_host[host][std::size_t(turn)].on_host;
      EXPECT_TRUE(on_host.kept.empty());
      const auto own = owners.subspan(host * std::size_t(per_host), std::size_t(per_host));
      for (const NodeSum& sum : on_host.sums) sums.push_back(sum_of(sum.finish, leaves_of(own)));
    }
    of_hosts = run_level(plan.across_hosts(), sums, host_places);
  }
  EXPECT_EQ(whole, expected);
  if (has_hosts) {
    EXPECT_EQ(of_hosts, expected);
  }
}

TEST(TurnPlans, GiveTheBitsOfTheTree) {
  for (const int ranks : {2, 3, 4, 6, 8})
    for (int cluster = 1; cluster <= ranks; ++cluster) {
      if (ranks % cluster != 0) continue;
      for (const int shards : {ranks, 2 * ranks + cluster, 24, 48, 64 / cluster * cluster})
        for (const std::int64_t samples : {1, 3, shards - 1, shards, 5 * shards + 2})
          for (const int per_host : {1, 2, 3}) {
            SCOPED_TRACE(fmt::format("{} samples, {} shards, {} ranks, clusters of {}, {} a host",
                                     samples,
                                     shards,
                                     ranks,
                                     cluster,
                                     per_host));
            ASSERT_NO_FATAL_FAILURE(
                expect_tree({samples, 1, shards, ranks, cluster, true}, per_host));
            if (HasFailure()) return;
          }
    }
}

/// What Note [Sharded gradients] says.
TEST(TurnPlans, KeepTheNodesOfACounter) {
  EXPECT_EQ(max_kept_sums(64, 2, 1), 5);
  EXPECT_EQ(max_kept_sums(64, 4, 1), 4);
  EXPECT_EQ(max_kept_sums(64, 8, 1), 3);
  EXPECT_EQ(max_kept_sums(6, 6, 1), 0);
  EXPECT_EQ(max_kept_sums(7, 6, 1), 2);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/tree_sum.h"

#include <gtest/gtest.h>
#include <optional>

#include "core/base/random.h"
#include "parallel/batch/schedule.h"
#include "tests/parallel/naive_tree.h"

namespace lockstep {
namespace {

using testing::Leaves;
using testing::naive_tree;

Leaves random_leaves(RandomStream& random, int shards) {
  Leaves leaves;
  for (int i = 0; i < shards; ++i)
    leaves.emplace_back(random.uniform(-1, 1) * float(1 << random.below(20)));
  return leaves;
}

struct Ranks {
  std::vector<TreeNode> nodes;
  std::vector<float> sums;
};

// Runs the descriptions of tree_sum.h as a rank does.
Ranks local_sums(const std::vector<ShardRange>& owners, const Leaves& leaves) {
  const PresentLeaves present(owners, int(leaves.size()));
  Ranks all;
  for (const ShardRange& own : owners) {
    const LocalTree tree = local_tree(present, own);
    std::vector<float> stack;
    std::size_t depth = 0;
    EXPECT_EQ(int(tree.merges.size()), own.last - own.first);
    for (int shard = own.first; shard < own.last; ++shard) {
      stack.push_back(leaves[std::size_t(shard)].value());
      depth = std::max(depth, stack.size());
      for (int m = 0; m < tree.merges[std::size_t(shard - own.first)]; ++m) {
        const float top = stack.back();
        stack.pop_back();
        stack.back() += top;
      }
    }
    EXPECT_EQ(stack.size(), tree.nodes.size());
    EXPECT_EQ(local_nodes(present, own), int(tree.nodes.size()));
    EXPECT_EQ(int(depth), tree.depth);
    all.nodes.insert(all.nodes.end(), tree.nodes.begin(), tree.nodes.end());
    all.sums.insert(all.sums.end(), stack.begin(), stack.end());
  }
  return all;
}

float tree_of_ranks(const std::vector<ShardRange>& owners, const Leaves& leaves) {
  Ranks all = local_sums(owners, leaves);
  const FinishTree finish = finish_tree(all.nodes);
  EXPECT_EQ(finish.leaves.size(), all.nodes.size());
  std::vector<float> stack;
  for (const auto [operand, merges] : finish.leaves) {
    stack.push_back(all.sums[std::size_t(operand)]);
    for (int m = 0; m < merges; ++m) {
      const float top = stack.back();
      stack.pop_back();
      stack.back() += top;
    }
  }
  EXPECT_EQ(stack.size(), 1);
  return stack.front();
}

// All ways to cut [first, shards) into `ranks` consecutive ranges, empty ones too.
template <typename F>
void for_partitions(int first, int shards, int ranks, std::vector<ShardRange>& owners, const F& f) {
  if (ranks == 1) {
    owners.push_back({first, shards});
    f(owners);
    owners.pop_back();
    return;
  }
  for (int last = first; last <= shards; ++last) {
    owners.push_back({first, last});
    for_partitions(last, shards, ranks - 1, owners, f);
    owners.pop_back();
  }
}

TEST(TreeSum, EveryPartitionGivesTheBitsOfTheDefinition) {
  RandomStream random(random_key(2, "tree"), 0);
  int differs_from_left_to_right = 0;
  for (int shards = 1; shards <= 33; ++shards) {
    const Leaves leaves = random_leaves(random, shards);
    const float expected = naive_tree(leaves, 0, shards).value();
    float in_line = leaves[0].value();
    for (int i = 1; i < shards; ++i) in_line += leaves[std::size_t(i)].value();
    differs_from_left_to_right += in_line != expected;
    for (int ranks = 1; ranks <= 5; ++ranks) {
      std::vector<ShardRange> owners;
      for_partitions(0, shards, ranks, owners, [&](const std::vector<ShardRange>& cut) {
        if (tree_of_ranks(cut, leaves) != expected) ADD_FAILURE() << shards << " on " << ranks;
      });
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(differs_from_left_to_right, 10) << "the data could not tell one order from another";
}

// Slots of a cluster, some of which lack their last shard; ranks in the order cluster * k + slot.
TEST(TreeSum, AbsentShardsAreSkipped) {
  RandomStream random(random_key(3, "tree"), 0);
  for (int trial = 0; trial < 2000; ++trial) {
    const int cluster = 1 + int(random.below(4)), clusters = 1 + int(random.below(3));
    const int per_slot = 1 + int(random.below(7)), shards = cluster * per_slot;
    const int whole_slots = 1 + int(random.below(std::uint32_t(cluster)));
    Leaves leaves = random_leaves(random, shards);
    for (int slot = whole_slots; slot < cluster; ++slot)
      leaves[std::size_t(slot * per_slot + per_slot - 1)].reset();
    std::vector<ShardRange> owners = shard_owners(shards, cluster * clusters, cluster);
    for (ShardRange& own : owners)
      if (!own.empty() && !leaves[std::size_t(own.last - 1)]) --own.last;
    EXPECT_EQ(tree_of_ranks(owners, leaves), naive_tree(leaves, 0, shards).value());
  }
}

TEST(TreeSum, DepthWithoutTheTree) {
  constexpr int kShards = 140;
  for (int first = 0; first < kShards; ++first)
    for (int last = first; last <= kShards; ++last) {
      const std::vector<ShardRange> owners{{0, first}, {first, last}, {last, kShards}};
      ASSERT_EQ(local_depth(owners[1]), local_tree(PresentLeaves(owners, kShards), owners[1]).depth)
          << first << " to " << last;
    }
}

TEST(TreeSum, AlignedBlocksLeaveOneNode) {
  const std::vector<ShardRange> owners = shard_owners(64, 4, 1);
  const PresentLeaves present(owners, 64);
  for (int rank = 0; rank < 4; ++rank) {
    const LocalTree tree = local_tree(present, owners[std::size_t(rank)]);
    EXPECT_EQ(tree.nodes, (std::vector<TreeNode>{{4, rank}}));
    EXPECT_EQ(tree.depth, 5);
  }
}

TEST(TreeSum, UnalignedBlocksLeaveTheLargestSubtrees) {
  const std::vector<ShardRange> owners{{0, 3}, {3, 10}, {10, 11}};
  const PresentLeaves present(owners, 11);
  EXPECT_EQ(local_tree(present, owners[0]).nodes, (std::vector<TreeNode>{{1, 0}, {0, 2}}));
  EXPECT_EQ(local_tree(present, owners[1]).nodes, (std::vector<TreeNode>{{0, 3}, {2, 1}, {1, 4}}));
  EXPECT_EQ(local_tree(present, {11, 11}).nodes.size(), 0u);
}

}  // namespace
}  // namespace lockstep

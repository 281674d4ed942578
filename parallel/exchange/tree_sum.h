// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/schedule.h"

namespace lockstep {

/// Pure description of the sums of Note [Reduction tree] in gradient_exchange.h: who adds what to
/// what. No memory, no messages.
///
/// The tree over V shards is the complete binary tree over the next power of two, whose missing
/// leaves are *absent*: a node with one absent side is its other side, a node with two is absent.
/// Absent shards (see Schedule::shards_of_rank) follow the same rule.

/// The sum over shards index << level up to (index + 1) << level.
struct TreeNode {
  int level = 0;
  std::int64_t index = 0;
  std::int64_t first_leaf() const { return index << level; }
  bool operator==(const TreeNode&) const = default;
};

/// Which shards have micro-batches.
class PresentLeaves {
 public:
  explicit PresentLeaves(std::span<const ShardRange> ranges, int shards);
  int shards() const { return int(before_.size()) - 1; }
  /// Present leaves in [first, last), cut to the shards there are.
  int count(std::int64_t first, std::int64_t last) const;

 private:
  std::vector<int> before_;  // [shards + 1]
};

/// What one rank does with its shards before it needs others. Sums stand on a stack; each finished
/// shard is pushed, then the top is merges[i] times replaced by the sum of the top two.
struct LocalTree {
  std::vector<int> merges;      ///< one for each own shard, in order
  std::vector<TreeNode> nodes;  ///< what the stack holds at the end, from the bottom
  int depth = 0;                ///< most sums on the stack at once
};

/// `own` is a range of present shards. Every node of the result is as large as it can be.
LocalTree local_tree(const PresentLeaves& present, ShardRange own);

/// How many nodes local_tree() leaves, without making them.
int local_nodes(const PresentLeaves& present, ShardRange own);

/// LocalTree::depth where all shards are present, without making the tree: when shard c is pushed
/// the stack holds the nodes of [own.first, c), so it is 1 + the most nodes of such a run.
int local_depth(ShardRange own);

/// `own`, ranges of present shards, joined where no present shard of others lies between them: from
/// left to right, without empty ones. No node that holds shards of `own` alone holds shards of two
/// of them.
std::vector<ShardRange> joined(const PresentLeaves& present, std::span<const ShardRange> own);

/// The rest of the tree over the nodes that all ranks are left with: operands from left to right,
/// and how often sums are merged after each, as Backend::sum_tree() has it.
struct FinishTree {
  struct Leaf {
    int operand = 0;
    int merges = 0;
  };
  std::vector<Leaf> leaves;
};

/// `operands`: disjoint nodes in any order that hold every present shard. Not empty.
FinishTree finish_tree(std::span<const TreeNode> operands);

/// How `node` is summed up from `operands`.
struct NodeSum {
  TreeNode node;
  FinishTree finish;
};

/// The largest nodes that hold no present shard but those of `own`, from left to right.
std::vector<TreeNode> largest_nodes(const PresentLeaves& present, std::span<const ShardRange> own);

/// How each of `nodes`, from left to right, is summed up from the `operands` below it, disjoint
/// ones in any order. Every operand is below one.
std::vector<NodeSum> sums_to(std::span<const TreeNode> nodes, std::span<const TreeNode> operands);

}  // namespace lockstep

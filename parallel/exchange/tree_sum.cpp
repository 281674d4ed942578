// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/tree_sum.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/check.h"

namespace lockstep {
namespace {

// Smallest level whose node 0 holds `leaves` leaves.
int level_above(std::int64_t leaves) {
  return std::bit_width(std::uint64_t(std::max<std::int64_t>(leaves, 1)) - 1);
}

/// The smallest node that holds all of `own`: further up, one side has none of them.
TreeNode top_of(ShardRange own) {
  const int level = std::bit_width(unsigned(own.first) ^ unsigned(own.last - 1));
  return {level, own.first >> level};
}

std::int64_t end_of(TreeNode node) { return TreeNode{node.level, node.index + 1}.first_leaf(); }

struct LocalWalk {
  const PresentLeaves& present;
  ShardRange own;
  LocalTree result;

  int owned(TreeNode node) const {
    return present.count(std::max<std::int64_t>(own.first, node.first_leaf()),
                         std::min<std::int64_t>(own.last, end_of(node)));
  }
  bool is_whole(TreeNode node, int here) const {
    return here == present.count(node.first_leaf(), end_of(node));
  }

  int count(TreeNode node) const {
    const int here = owned(node);
    if (here == 0) return 0;
    if (is_whole(node, here)) return 1;
    return count({node.level - 1, 2 * node.index}) + count({node.level - 1, 2 * node.index + 1});
  }

  /// The nodes that visit() leaves.
  void collect(TreeNode node, std::vector<TreeNode>& nodes) const {
    const int here = owned(node);
    if (here == 0) return;
    if (node.level == 0) {
      nodes.push_back(node);
      return;
    }
    const TreeNode left{node.level - 1, 2 * node.index}, right{node.level - 1, 2 * node.index + 1};
    if (is_whole(node, here) && owned(left) > 0 && owned(right) > 0) {
      nodes.push_back(node);
      return;
    }
    collect(left, nodes);
    collect(right, nodes);
  }

  void visit(TreeNode node) {
    const int here = owned(node);
    if (here == 0) return;
    if (node.level == 0) {
      result.merges.push_back(0);
      result.nodes.push_back(node);
      result.depth = std::max(result.depth, int(result.nodes.size()));
      return;
    }
    const TreeNode left{node.level - 1, 2 * node.index}, right{node.level - 1, 2 * node.index + 1};
    visit(left);
    visit(right);
    if (!is_whole(node, here) || owned(left) == 0 || owned(right) == 0) return;
    ++result.merges.back();
    result.nodes.pop_back();
    result.nodes.back() = node;
  }
};

struct FinishWalk {
  std::span<const TreeNode> operands;
  std::vector<FinishTree::Leaf> leaves;

  // `order`: operand numbers below `node` from left to right.
  void visit(TreeNode node, std::span<const int> order) {
    if (order.size() == 1) {
      leaves.push_back({order.front(), 0});
      return;
    }
    LOCKSTEP_ASSERT(node.level > 0);  // Else two operands share a leaf.
    const TreeNode left{node.level - 1, 2 * node.index}, right{node.level - 1, 2 * node.index + 1};
    const auto middle = std::ranges::partition_point(
        order, [&](int i) { return operands[std::size_t(i)].first_leaf() < right.first_leaf(); });
    const auto on_left = std::size_t(middle - order.begin());
    if (on_left > 0) visit(left, order.first(on_left));
    if (on_left < order.size()) visit(right, order.subspan(on_left));
    if (on_left > 0 && on_left < order.size()) ++leaves.back().merges;
  }
};

/// Their indices by place in the tree.
std::vector<int> from_left_to_right(std::span<const TreeNode> operands) {
  std::vector<int> order(operands.size());
  std::iota(order.begin(), order.end(), 0);
  const auto first_leaf = [&](int i) { return operands[std::size_t(i)].first_leaf(); };
  if (!std::ranges::is_sorted(order, {}, first_leaf)) std::ranges::sort(order, {}, first_leaf);
  return order;
}

}  // namespace

PresentLeaves::PresentLeaves(std::span<const ShardRange> ranges, int shards)
    : before_(std::size_t(shards) + 1) {
  for (const ShardRange& range : ranges)
    for (int shard = range.first; shard < range.last; ++shard) {
      LOCKSTEP_ASSERT(shard >= 0 && shard < shards && before_[std::size_t(shard) + 1] == 0);
      before_[std::size_t(shard) + 1] = 1;
    }
  std::partial_sum(before_.begin(), before_.end(), before_.begin());
}

int PresentLeaves::count(std::int64_t first, std::int64_t last) const {
  const std::int64_t end = std::min<std::int64_t>(last, shards());
  return first < end ? before_[std::size_t(end)] - before_[std::size_t(first)] : 0;
}

LocalTree local_tree(const PresentLeaves& present, ShardRange own) {
  LocalWalk walk{present, own, {}};
  if (own.empty()) return {};
  walk.visit(top_of(own));
  return std::move(walk.result);
}

int local_nodes(const PresentLeaves& present, ShardRange own) {
  return own.empty() ? 0 : LocalWalk{present, own, {}}.count(top_of(own));
}

int local_depth(ShardRange own) {
  if (own.empty()) return 0;
  // A run [first, c) that ends in the right half of the smallest node that holds it has the nodes
  // of the left half's part and those of c - middle, one for each bit that is set. Ends in the left
  // half are those of a shorter range.
  int most = 0;
  for (int last = own.last - 1; last > own.first;) {
    const int level = std::bit_width(unsigned(own.first) ^ unsigned(last)) - 1;
    const int middle = last >> level << level;  // in (first, last]
    const unsigned longest = unsigned(last - middle);
    // Of numbers up to `longest`, it or one below it that has all bits but the highest.
    const int bits = std::max<int>(std::popcount(longest), int(std::bit_width(longest)) - 1);
    most = std::max(most, std::popcount(unsigned(middle - own.first)) + bits);
    last = middle - 1;
  }
  return most + 1;
}

std::vector<ShardRange> joined(const PresentLeaves& present, std::span<const ShardRange> own) {
  std::vector<ShardRange> ranges(own.begin(), own.end());
  std::erase_if(ranges, [](const ShardRange& range) { return range.empty(); });
  std::ranges::sort(ranges, {}, &ShardRange::first);
  std::vector<ShardRange> runs;
  for (const ShardRange& range : ranges) {
    if (!runs.empty() && present.count(runs.back().last, range.first) == 0)
      runs.back().last = range.last;
    else
      runs.push_back(range);
  }
  return runs;
}

FinishTree finish_tree(std::span<const TreeNode> operands) {
  LOCKSTEP_ASSERT(!operands.empty());
  const std::vector<int> order = from_left_to_right(operands);
  FinishWalk walk{operands, {}};
  const std::int64_t last_leaf = operands[std::size_t(order.back())].first_leaf();
  walk.visit({level_above(last_leaf + 1), 0}, order);
  return {std::move(walk.leaves)};
}

std::vector<TreeNode> largest_nodes(const PresentLeaves& present, std::span<const ShardRange> own) {
  std::vector<TreeNode> nodes;
  for (const ShardRange& run : joined(present, own))
    LocalWalk{present, run, {}}.collect(top_of(run), nodes);
  return nodes;
}

std::vector<NodeSum> sums_to(std::span<const TreeNode> nodes, std::span<const TreeNode> operands) {
  const std::vector<int> order = from_left_to_right(operands);
  std::vector<NodeSum> sums;
  auto next = order.begin();
  for (const TreeNode& node : nodes) {
    const auto begin = next;
    while (next != order.end() && operands[std::size_t(*next)].first_leaf() < end_of(node)) ++next;
    FinishWalk walk{operands, {}};
    walk.visit(node, {begin, next});
    sums.push_back({node, {std::move(walk.leaves)}});
  }
  LOCKSTEP_ASSERT(next == order.end());
  return sums;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/schedule.h"
#include "parallel/exchange/tree_sum.h"

namespace lockstep {

/// Ranks that cut a stretch of a bucket into one piece each, and of all sums finish a part
/// of the tree on the own piece: its *members*, either all ranks or those of one of two levels.
///
/// Note [Two levels]. Where all that the ranks of each host own is one node of the tree, they sum
/// that first, each on a piece of the bucket, and then cut the piece among the ranks of the same
/// place on all hosts, which finish the tree. The same tree in the same order; but what crosses the
/// network is one sum for each host instead of one for each rank. (Communicator says node for what
/// is a host here, as nodes are those of the tree.)
struct LevelPlan {
  /// Nodes of the tree are in the order of members: member m has first_node[m] up to
  /// first_node[m + 1].
  std::vector<int> first_node;  ///< [members + 1]
  int layers = 0;               ///< most nodes of one member
  FinishTree finish;            ///< over all nodes
  /// A bucket has one chunk for each rank; a piece is `chunks` of them, member m's from
  /// first_chunk + m * chunks on.
  int first_chunk = 0;
  int chunks = 1;

  int members() const { return int(first_node.size()) - 1; }
  int nodes() const { return first_node.back(); }
  int nodes_of(int member) const {
    return first_node[std::size_t(member) + 1] - first_node[std::size_t(member)];
  }
};

/// `nodes`: of each member. Not all empty.
LevelPlan make_level_plan(std::span<const std::vector<TreeNode>> nodes);

/// Whether there are hosts with several ranks each, so that there may be two levels.
bool may_have_two_levels(int ranks, int ranks_per_host);

/// The node of the tree that the shards of each host's ranks are; empty where they are not one
/// each.
std::vector<TreeNode> host_nodes(const PresentLeaves& present,
                                 std::span<const ShardRange> owners,
                                 int ranks_per_host);

/// Whether make_host_levels() has levels for these ranks, in less time. `node_counts`: of each
/// rank.
bool takes_host_levels(const PresentLeaves& present,
                       std::span<const ShardRange> owners,
                       std::span<const int> node_counts,
                       int ranks_per_host);

/// The two levels of `rank`: on its host, then across hosts. `nodes`: of each rank. Empty on every
/// rank where the exchange has to take all ranks at once: hosts hold no nodes, or some rank would
/// have to receive more at once than that takes.
std::vector<LevelPlan> make_host_levels(const PresentLeaves& present,
                                        std::span<const ShardRange> owners,
                                        std::span<const std::vector<TreeNode>> nodes,
                                        int rank,
                                        int ranks_per_host);

}  // namespace lockstep

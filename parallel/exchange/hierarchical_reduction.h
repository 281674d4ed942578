// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/ownership.h"
#include "lockstep/schedule.h"
#include "parallel/exchange/tree_sum.h"

namespace lockstep {

/// Ranks that cut a stretch of a bucket into one piece each, and of all sums finish a part
/// of the tree on the own piece: its *members*, either all ranks or those of one of two levels.
///
/// Note [Two levels]. With R ranks on each of H hosts, N = R H, the ranks of a host first sum what
/// they own together to the largest nodes of the tree that it allows (largest_sums()), each on a
/// piece of the bucket. Then each cuts its piece among the ranks of the same place on all hosts,
/// which finish the tree. The same tree in the same order, whatever the numbers of hosts, ranks and
/// shards; but what crosses the network is the nodes of hosts instead of those of ranks.
/// (Communicator says node for what is a host here, as nodes are those of the tree.)
///
/// Off-host bytes. Of a bucket of n bytes, cut into N chunks, let rank r have q_r nodes, Q together
/// and Q_h on host h, and let host h have k_h, K together. Chunks that leave host h:
///
///   one level    (N - R) (Q_h + R)    each node and the own sum to all ranks of other hosts
///   two levels   R (H - 1) (k_h + 1)  and N - R = R (H - 1)
///
/// Every node of a host is the sum of at least one node of its ranks, so k_h <= Q_h and K <= Q; and
/// R >= 1. So two levels never send more, neither a host nor all together, and no rule has to keep
/// one level: they send (k_h + 1) (H - 1) n / H bytes a host, where a ring sends 2 (H - 1) n / H.
/// With a sharded optimizer the last sum ends the exchange, and weights of w bytes are gathered
/// instead: (k_h n + w) (H - 1) / H bytes (Note [Sharded optimizer] in ownership.h).
///
/// Where ranks form no clusters (shard_owners()), a host has L consecutive shards. Of a run's
/// nodes, sizes grow from its left end and shrink to its right end, each size at most once on each
/// side: with j nodes on each side the run has at least 2 (2^j - 1) shards, with one more
/// 2 (2^j - 1) + 2^j. So
///
///   k_h <= 2 log2(L + 2) - 2
///
/// (max_run_nodes() has the whole number), and k_h = 1 where a host's shards are a subtree, as
/// where H and V are powers of two. A cluster's slots are apart in the tree: there k_h is at most
/// as many times as much as the host's ranks have slots.
struct LevelPlan {
  /// Nodes of the tree are in the order of members: member m has first_node[m] up to
  /// first_node[m + 1].
  std::vector<int> first_node;  ///< [members + 1]
  int layers = 0;               ///< most nodes of one member
  /// Of Note [Sharded gradients]: operands after the nodes, by the places where they are kept.
  std::vector<int> kept;
  /// What the nodes of all members, and what is kept, are summed to: on the last level the whole
  /// tree alone, but where sums are kept.
  std::vector<NodeSum> sums;
  /// [sums]: the place where each is kept; -1: it stands in the gradients. Empty on a host.
  std::vector<int> places;
  /// A bucket has one chunk for each rank; a piece is `chunks` of them, those of the members one
  /// after another.
  int chunks = 1;

  int members() const { return int(first_node.size()) - 1; }
  int nodes() const { return first_node.back(); }
  int operands() const { return nodes() + int(kept.size()); }
  int nodes_of(int member) const {
    return first_node[std::size_t(member) + 1] - first_node[std::size_t(member)];
  }
  /// Chunks of nodes that `member` receives from others.
  std::int64_t received_by(int member) const {
    return std::int64_t(nodes() - nodes_of(member)) * chunks;
  }
};

/// A sum that owners keep: Note [Sharded gradients].
struct KeptSum {
  TreeNode node;
  int place = -1;  ///< -1: not kept, it stands in the gradients
};

/// What owners keep before and after a turn, from left to right.
struct TurnSums {
  std::vector<KeptSum> before, after;
};

/// The last level, of members with `nodes`. Not all empty. `turn`: null: they sum up to the tree.
LevelPlan make_level_plan(std::span<const std::vector<TreeNode>> nodes,
                          const TurnSums* turn = nullptr);

/// How many nodes a run of at most `shards` consecutive shards has at most: the whole number of
/// Note [Two levels], which some run has. shards >= 1.
int max_run_nodes(int shards);

/// How many nodes the shards of each host are.
std::vector<int> host_node_counts(const PresentLeaves& present,
                                  std::span<const ShardRange> owners,
                                  int ranks_per_host);

/// The first of two levels: that of the ranks of one host, which own `of_host` and have `nodes`, of
/// `hosts`.
LevelPlan make_host_level(const PresentLeaves& present,
                          std::span<const ShardRange> of_host,
                          std::span<const std::vector<TreeNode>> nodes,
                          int hosts);

/// The second, across hosts, of `owners`: equal on all ranks. has_two_levels(). `turn`: as in
/// make_level_plan().
LevelPlan make_level_across_hosts(const PresentLeaves& present,
                                  std::span<const ShardRange> owners,
                                  int ranks_per_host,
                                  const TurnSums* turn = nullptr);

/// The most chunks of a bucket that a rank receives before its last sum, on one level or on two
/// with hosts of any size.
class MaxReceivedChunks {
 public:
  /// `node_counts`: of each rank, which must outlive it.
  MaxReceivedChunks(const PresentLeaves& present,
                    std::span<const ShardRange> owners,
                    std::span<const int> node_counts);

  std::int64_t of(int rank) const;

 private:
  struct Hosts {
    int ranks_per_host = 0;
    std::vector<int> nodes;  // of each host
    std::int64_t all = 0;
  };
  std::span<const int> node_counts_;
  std::int64_t all_;
  std::vector<Hosts> hosts_;  // for each number of ranks on a host
};

}  // namespace lockstep

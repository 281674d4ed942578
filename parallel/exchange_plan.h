// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "parallel/gradient_exchange.h"
#include "parallel/schedule.h"
#include "parallel/tree_sum.h"

namespace lockstep {

/// What an exchange's memory follows from.
struct ExchangeSize {
  int nodes = 0;      ///< that all ranks are left with
  int own_nodes = 0;  ///< of those, this rank's
  int depth = 0;      ///< LocalTree::depth of this rank
};

/// How the ranks of one schedule share the work of the reduction tree. Equal on every rank but for
/// `local`. Made once for each kind of batch (whole, tail) and kept.
struct ExchangePlan {
  int shards = 0;
  std::vector<ShardRange> owners;  ///< with `shards`: what the plan was made for
  LocalTree local;                 ///< of this rank
  /// Nodes that ranks are left with stand in rank order: rank r has first_node[r] up to
  /// first_node[r + 1].
  std::vector<int> first_node;  ///< [ranks + 1]
  ExchangeSize size;
  int layers = 0;             ///< most nodes of one rank
  bool equal_counts = false;  ///< every rank has as many
  FinishTree finish;          ///< over all nodes

  int nodes() const { return first_node.back(); }
  int nodes_of(int rank) const {
    return first_node[std::size_t(rank) + 1] - first_node[std::size_t(rank)];
  }
};

/// With Reduction::fast each rank adds up all that it has, whatever the tree says.
ExchangePlan make_exchange_plan(int shards,
                                std::span<const ShardRange> owners,
                                int rank,
                                Reduction reduction);

/// The size of that plan, in less time: memory is reserved for many plans, one of which is made.
ExchangeSize exchange_size(int shards,
                           std::span<const ShardRange> owners,
                           int rank,
                           Reduction reduction);

/// The leaves of `finish` as Backend::sum_tree() takes them. operands: [nodes], terms: [nodes].
void to_terms(const FinishTree& finish,
              std::span<float* const> operands,
              std::span<TreeTerm> terms);

/// The chunk of a bucket that `rank` sums: equal sizes in units of 64 bytes, the last ones shorter.
CommBlock chunk_of(std::int64_t elems, int rank, int ranks);

}  // namespace lockstep

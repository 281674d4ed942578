// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange_plan.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kChunkUnit = 16;  // Elements in 64 bytes: ranks share no cache line.

void add_up_everything(LocalTree& local) {
  if (local.nodes.size() <= 1) return;
  local.merges.back() += int(local.nodes.size()) - 1;
  local.nodes.resize(1);
}

}  // namespace

ExchangePlan make_exchange_plan(int shards,
                                std::span<const ShardRange> owners,
                                int rank,
                                Reduction reduction) {
  ExchangePlan plan;
  plan.shards = shards;
  plan.owners.assign(owners.begin(), owners.end());
  const PresentLeaves present(owners, shards);
  std::vector<TreeNode> nodes;
  plan.first_node.push_back(0);
  plan.equal_counts = true;
  for (int r = 0; r < int(owners.size()); ++r) {
    LocalTree local = local_tree(present, owners[std::size_t(r)]);
    if (reduction == Reduction::fast) add_up_everything(local);
    nodes.insert(nodes.end(), local.nodes.begin(), local.nodes.end());
    plan.first_node.push_back(int(nodes.size()));
    plan.layers = std::max(plan.layers, int(local.nodes.size()));
    plan.equal_counts = plan.equal_counts && plan.nodes_of(r) == plan.nodes_of(0);
    if (r == rank) plan.local = std::move(local);
  }
  LOCKSTEP_ASSERT(!nodes.empty());
  plan.finish = finish_tree(nodes);
  plan.size = {int(nodes.size()), plan.nodes_of(rank), plan.local.depth};
  return plan;
}

ExchangeSize exchange_size(int shards,
                           std::span<const ShardRange> owners,
                           int rank,
                           Reduction reduction) {
  const PresentLeaves present(owners, shards);
  const auto nodes_of = [&](const ShardRange& own) {
    const int nodes = local_nodes(present, own);
    return reduction == Reduction::fast ? std::min(nodes, 1) : nodes;
  };
  ExchangeSize size;
  for (const ShardRange& own : owners) size.nodes += nodes_of(own);
  const ShardRange own = owners[std::size_t(rank)];
  size.own_nodes = nodes_of(own);
  size.depth = local_tree(present, own).depth;
  return size;
}

void to_terms(const FinishTree& finish,
              std::span<float* const> operands,
              std::span<TreeTerm> terms) {
  LOCKSTEP_ASSERT(finish.leaves.size() == terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i)
    terms[i] = {operands[std::size_t(finish.leaves[i].operand)], finish.leaves[i].merges};
}

CommBlock chunk_of(std::int64_t elems, int rank, int ranks) {
  const std::int64_t units = (elems + kChunkUnit - 1) / kChunkUnit;
  const std::int64_t size = (units + ranks - 1) / ranks * kChunkUnit;
  const std::int64_t first = std::min(rank * size, elems);
  return {first, std::min(size, elems - first)};
}

}  // namespace lockstep

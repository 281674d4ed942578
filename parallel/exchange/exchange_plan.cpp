// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_plan.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/plan/flat_space.h"

namespace lockstep {
namespace {

void add_up_everything(LocalTree& local) {
  if (local.nodes.size() <= 1) return;
  local.merges.back() += int(local.nodes.size()) - 1;
  local.nodes.resize(1);
}

}  // namespace

ExchangePlan make_exchange_plan(int shards,
                                std::span<const ShardRange> owners,
                                int rank,
                                int ranks_per_host,
                                Reduction reduction) {
  ExchangePlan plan;
  plan.shards = shards;
  plan.owners.assign(owners.begin(), owners.end());
  const PresentLeaves present(owners, shards);
  std::vector<std::vector<TreeNode>> nodes;
  plan.equal_counts = true;
  for (int r = 0; r < int(owners.size()); ++r) {
    LocalTree local = local_tree(present, owners[std::size_t(r)]);
    if (reduction == Reduction::fast) add_up_everything(local);
    nodes.push_back(local.nodes);
    plan.equal_counts = plan.equal_counts && nodes.back().size() == nodes.front().size();
    if (r == rank) plan.local = std::move(local);
  }
  plan.all = make_level_plan(nodes);
  plan.size = {plan.all.nodes(), plan.all.nodes_of(rank), plan.local.depth};
  if (reduction == Reduction::reproducible)
    plan.by_host = make_host_levels(present, owners, nodes, rank, ranks_per_host);
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

bool has_host_levels(int shards,
                     std::span<const ShardRange> owners,
                     int ranks_per_host,
                     Reduction reduction) {
  if (reduction == Reduction::fast || !may_have_two_levels(int(owners.size()), ranks_per_host))
    return false;
  const PresentLeaves present(owners, shards);
  std::vector<int> node_counts;
  for (const ShardRange& own : owners) node_counts.push_back(local_nodes(present, own));
  return takes_host_levels(present, owners, node_counts, ranks_per_host);
}

void to_terms(const FinishTree& finish,
              std::span<float* const> operands,
              std::span<TreeTerm> terms) {
  LOCKSTEP_ASSERT(finish.leaves.size() == terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i)
    terms[i] = {operands[std::size_t(finish.leaves[i].operand)], finish.leaves[i].merges};
}

CommBlock chunks_of(std::int64_t elems, int first, int count, int ranks) {
  const std::int64_t units = (elems + kChunkUnit - 1) / kChunkUnit;
  const std::int64_t size = (units + ranks - 1) / ranks * kChunkUnit;
  const std::int64_t begin = std::min(first * size, elems);
  return {begin, std::min(count * size, elems - begin)};
}

}  // namespace lockstep

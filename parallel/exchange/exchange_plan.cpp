// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_plan.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/plan/flat_space.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

void add_up_everything(LocalTree& local) {
  if (local.nodes.size() <= 1) return;
  local.merges.back() += int(local.nodes.size()) - 1;
  local.nodes.resize(1);
}

std::vector<int> rank_node_counts(const PresentLeaves& present,
                                  std::span<const ShardRange> owners,
                                  Reduction reduction) {
  std::vector<int> counts;
  counts.reserve(owners.size());
  for (const ShardRange& own : owners) {
    const int nodes = local_nodes(present, own);
    counts.push_back(reduction == Reduction::fast ? std::min(nodes, 1) : nodes);
  }
  return counts;
}

/// max_received_chunks() of any schedule in which ranks have ranges of at most `longest` shards,
/// and so at most `nodes` nodes each.
std::int64_t max_received_chunks(int longest, int ranks, int nodes) {
  std::int64_t most = std::int64_t(ranks - 1) * nodes;
  for (int per_host = 2; per_host < ranks; ++per_host) {
    if (!has_two_levels(ranks, per_host)) continue;
    const int hosts = ranks / per_host;
    // In clusters a host has ranges in as many slots, in each those of consecutive clusters.
    int of_host = 0;
    for (int cluster = 1; cluster <= ranks; ++cluster) {
      if (ranks % cluster != 0) continue;
      const int slots = std::min(cluster, per_host), in_slot = (per_host - 1) / cluster + 1;
      of_host = std::max(of_host, slots * max_run_nodes(in_slot * longest));
    }
    of_host = std::min(of_host, per_host * nodes);
    most = std::max(most,
                    std::int64_t(per_host - 1) * nodes * hosts + std::int64_t(hosts - 1) * of_host);
  }
  return most;
}

}  // namespace

ExchangePlan make_exchange_plan(int shards,
                                std::span<const ShardRange> owners,
                                int rank,
                                int ranks_per_host,
                                Reduction reduction) {
  ExchangePlan plan;
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
  plan.size = {.nodes = plan.all.nodes(),
               .own_nodes = plan.all.nodes_of(rank),
               .depth = plan.local.depth,
               .received_chunks = plan.all.received_by(rank)};
  if (reduction == Reduction::fast || !has_two_levels(int(owners.size()), ranks_per_host))
    return plan;
  plan.by_host = make_host_levels(present, owners, nodes, rank, ranks_per_host);
  plan.size.received_chunks = plan.by_host[0].received_by(rank % ranks_per_host) +
                              plan.by_host[1].received_by(rank / ranks_per_host);
  return plan;
}

ExchangeSize exchange_size(int shards,
                           std::span<const ShardRange> owners,
                           int rank,
                           Reduction reduction) {
  const PresentLeaves present(owners, shards);
  const std::vector<int> counts = rank_node_counts(present, owners, reduction);
  ExchangeSize size;
  size.nodes = std::accumulate(counts.begin(), counts.end(), 0);
  size.own_nodes = counts[std::size_t(rank)];
  size.depth = local_tree(present, owners[std::size_t(rank)]).depth;
  size.received_chunks =
      reduction == Reduction::fast ? 0 : max_received_chunks(present, owners, counts, rank);
  return size;
}

ExchangeSize max_exchange_size(int shards, int ranks, int rank, Reduction reduction) {
  const int longest = (shards - 1) / ranks + 1;
  ExchangeSize size;
  size.own_nodes = reduction == Reduction::fast ? 1 : max_run_nodes(longest);
  size.nodes = std::min(shards, ranks * size.own_nodes);
  for (int cluster = 1; cluster <= ranks; ++cluster) {
    if (ranks % cluster != 0) continue;
    for (int all = cluster; all <= shards; all += cluster)
      size.depth = std::max(size.depth, local_depth(shards_owned_by(rank, all, ranks, cluster)));
  }
  size.received_chunks =
      reduction == Reduction::fast ? 0 : max_received_chunks(longest, ranks, size.own_nodes);
  return size;
}

ExchangeNodes exchange_nodes(const PresentLeaves& present,
                             std::span<const ShardRange> owners,
                             int ranks_per_host,
                             Reduction reduction) {
  ExchangeNodes nodes{rank_node_counts(present, owners, reduction), {}};
  if (reduction == Reduction::reproducible && has_two_levels(int(owners.size()), ranks_per_host))
    nodes.of_hosts = host_node_counts(present, owners, ranks_per_host);
  return nodes;
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

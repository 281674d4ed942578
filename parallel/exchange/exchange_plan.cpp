// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/host/shared_values.h"
#include "core/plan/flat_space.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

LocalTree tree_of_rank(const PresentLeaves& present, ShardRange own, Reduction reduction) {
  LocalTree local = local_tree(present, own);
  if (reduction == Reduction::fast && local.nodes.size() > 1) {
    local.merges.back() += int(local.nodes.size()) - 1;
    local.nodes.resize(1);
  }
  return local;
}

std::vector<std::vector<TreeNode>> nodes_of_ranks(const PresentLeaves& present,
                                                  std::span<const ShardRange> owners,
                                                  Reduction reduction) {
  std::vector<std::vector<TreeNode>> nodes;
  nodes.reserve(owners.size());
  for (const ShardRange& own : owners) nodes.push_back(tree_of_rank(present, own, reduction).nodes);
  return nodes;
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

CommonPlan make_common_plan(const PresentLeaves& present,
                            std::span<const ShardRange> owners,
                            int ranks_per_host,
                            Reduction reduction,
                            const TurnSums* turn) {
  const auto nodes = nodes_of_ranks(present, owners, reduction);
  CommonPlan plan;
  plan.all = make_level_plan(nodes, turn);
  plan.equal_counts = std::ranges::all_of(
      nodes, [&](const auto& of_rank) { return of_rank.size() == nodes.front().size(); });
  plan.keeps = turn != nullptr && turn->after.front().place >= 0;
  if (reduction == Reduction::reproducible && has_two_levels(int(owners.size()), ranks_per_host))
    plan.across_hosts = make_level_across_hosts(present, owners, ranks_per_host, turn);
  return plan;
}

ExchangePlan plan_of_rank(std::shared_ptr<const CommonPlan> common,
                          const PresentLeaves& present,
                          std::span<const ShardRange> owners,
                          int rank,
                          int ranks_per_host,
                          Reduction reduction) {
  ExchangePlan plan;
  plan.common = std::move(common);
  plan.local = tree_of_rank(present, owners[std::size_t(rank)], reduction);
  plan.size = {.nodes = plan.all().nodes(),
               .own_nodes = plan.all().nodes_of(rank),
               .depth = plan.local.depth,
               .received_chunks = plan.all().received_by(rank)};
  if (!plan.has_two_levels()) return plan;
  const auto per_host = std::size_t(ranks_per_host);
  const auto of_host = owners.subspan(std::size_t(rank) / per_host * per_host, per_host);
  plan.on_host = make_host_level(
      present, of_host, nodes_of_ranks(present, of_host, reduction), plan.across_hosts().members());
  plan.size.received_chunks = plan.on_host.received_by(rank % ranks_per_host) +
                              plan.across_hosts().received_by(rank / ranks_per_host);
  return plan;
}

ExchangePlan make_exchange_plan(int shards,
                                std::span<const ShardRange> owners,
                                int rank,
                                int ranks_per_host,
                                Reduction reduction) {
  const PresentLeaves present(owners, shards);
  auto common = std::make_shared<const CommonPlan>(
      make_common_plan(present, owners, ranks_per_host, reduction));
  return plan_of_rank(std::move(common), present, owners, rank, ranks_per_host, reduction);
}

ExchangeSizes::ExchangeSizes(int shards, std::vector<ShardRange> owners, Reduction reduction)
    : owners_(std::move(owners)),
      present_(owners_, shards),
      counts_(rank_node_counts(present_, owners_, reduction)),
      nodes_(std::accumulate(counts_.begin(), counts_.end(), 0)) {
  if (reduction != Reduction::fast) received_.emplace(present_, owners_, counts_);
}

ExchangeSize ExchangeSizes::of(int rank) const {
  return {.nodes = nodes_,
          .own_nodes = counts_[std::size_t(rank)],
          .depth = local_tree(present_, owners_[std::size_t(rank)]).depth,
          .received_chunks = received_ ? received_->of(rank) : 0};
}

ExchangeSize exchange_size(int shards,
                           std::span<const ShardRange> owners,
                           int rank,
                           Reduction reduction) {
  return ExchangeSizes(shards, {owners.begin(), owners.end()}, reduction).of(rank);
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
  if (reduction == Reduction::fast) return size;
  static SharedValues<std::array<int, 3>, std::int64_t> shared;
  size.received_chunks = *shared.get({longest, ranks, size.own_nodes}, [&] {
    return std::make_shared<const std::int64_t>(
        max_received_chunks(longest, ranks, size.own_nodes));
  });
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

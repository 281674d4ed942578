// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/hierarchical_reduction.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace lockstep {
namespace {

std::int64_t sum_of(std::span<const int> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Whether no rank receives more at once than with all ranks on one level, so that the memory
/// reserved for that is enough. In chunks: there one for each node of another rank; here as many as
/// there are hosts for each node of another rank of the host. (And then one for each other host,
/// which is never more.)
bool fits(std::span<const int> node_counts, std::size_t ranks_per_host) {
  const std::int64_t all = sum_of(node_counts);
  const auto hosts = std::int64_t(node_counts.size() / ranks_per_host);
  for (std::size_t first = 0; first < node_counts.size(); first += ranks_per_host) {
    const auto host = node_counts.subspan(first, ranks_per_host);
    const std::int64_t here = sum_of(host);
    for (const int own : host)
      if ((here - own) * hosts > all - own) return false;
  }
  return true;
}

}  // namespace

LevelPlan make_level_plan(std::span<const std::vector<TreeNode>> nodes) {
  LevelPlan plan;
  std::vector<TreeNode> all;
  plan.first_node.push_back(0);
  for (const std::vector<TreeNode>& of_member : nodes) {
    all.insert(all.end(), of_member.begin(), of_member.end());
    plan.first_node.push_back(int(all.size()));
    plan.layers = std::max(plan.layers, int(of_member.size()));
  }
  plan.finish = finish_tree(all);
  return plan;
}

bool may_have_two_levels(int ranks, int ranks_per_host) {
  return ranks_per_host > 1 && ranks_per_host < ranks && ranks % ranks_per_host == 0;
}

std::vector<TreeNode> host_nodes(const PresentLeaves& present,
                                 std::span<const ShardRange> owners,
                                 int ranks_per_host) {
  std::vector<TreeNode> nodes;
  const auto per_host = std::size_t(ranks_per_host);
  for (std::size_t first = 0; first < owners.size(); first += per_host) {
    const std::optional<TreeNode> node = exact_node(present, owners.subspan(first, per_host));
    if (!node) return {};
    nodes.push_back(*node);
  }
  return nodes;
}

bool takes_host_levels(const PresentLeaves& present,
                       std::span<const ShardRange> owners,
                       std::span<const int> node_counts,
                       int ranks_per_host) {
  return may_have_two_levels(int(owners.size()), ranks_per_host) &&
         !host_nodes(present, owners, ranks_per_host).empty() &&
         fits(node_counts, std::size_t(ranks_per_host));
}

std::vector<LevelPlan> make_host_levels(const PresentLeaves& present,
                                        std::span<const ShardRange> owners,
                                        std::span<const std::vector<TreeNode>> nodes,
                                        int rank,
                                        int ranks_per_host) {
  std::vector<int> node_counts;
  for (const std::vector<TreeNode>& of_rank : nodes) node_counts.push_back(int(of_rank.size()));
  if (!takes_host_levels(present, owners, node_counts, ranks_per_host)) return {};
  const auto per_host = std::size_t(ranks_per_host);
  const std::vector<TreeNode> of_hosts = host_nodes(present, owners, ranks_per_host);

  const int host = rank / ranks_per_host, place = rank % ranks_per_host;
  LevelPlan on_host = make_level_plan(nodes.subspan(std::size_t(host) * per_host, per_host));
  on_host.chunks = int(of_hosts.size());
  std::vector<std::vector<TreeNode>> one_each;
  for (const TreeNode& node : of_hosts) one_each.push_back({node});
  LevelPlan across = make_level_plan(one_each);
  across.first_chunk = place * on_host.chunks;
  return {std::move(on_host), std::move(across)};
}

}  // namespace lockstep

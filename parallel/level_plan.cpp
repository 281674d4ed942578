// SPDX-License-Identifier: Apache-2.0
#include "parallel/level_plan.h"

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

std::size_t count_nodes(std::span<const std::vector<TreeNode>> nodes) {
  std::size_t count = 0;
  for (const std::vector<TreeNode>& of_rank : nodes) count += of_rank.size();
  return count;
}

/// Whether no rank receives more at once than with all ranks on one level, so that the memory
/// reserved for that is enough. In chunks: there one for each node of another rank; here as many as
/// there are hosts for each node of another rank of the host. (And then one for each other host,
/// which is never more.)
bool fits(std::span<const std::vector<TreeNode>> nodes, std::size_t ranks_per_host) {
  const std::size_t all = count_nodes(nodes), hosts = nodes.size() / ranks_per_host;
  for (std::size_t first = 0; first < nodes.size(); first += ranks_per_host) {
    const auto host = nodes.subspan(first, ranks_per_host);
    const std::size_t here = count_nodes(host);
    for (const std::vector<TreeNode>& own : host)
      if ((here - own.size()) * hosts > all - own.size()) return false;
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

std::vector<LevelPlan> make_host_levels(const PresentLeaves& present,
                                        std::span<const ShardRange> owners,
                                        std::span<const std::vector<TreeNode>> nodes,
                                        int rank,
                                        int ranks_per_host) {
  if (!may_have_two_levels(int(owners.size()), ranks_per_host)) return {};
  const auto per_host = std::size_t(ranks_per_host);
  const std::vector<TreeNode> of_hosts = host_nodes(present, owners, ranks_per_host);
  if (of_hosts.empty() || !fits(nodes, per_host)) return {};

  const int host = rank / ranks_per_host, place = rank % ranks_per_host;
  LevelPlan on_host = make_level_plan(nodes.subspan(std::size_t(host) * per_host, per_host));
  on_host.chunks = int(of_hosts.size());
  std::vector<std::vector<TreeNode>> one_each;
  for (const TreeNode& node : of_hosts) one_each.push_back({node});
  LevelPlan across = make_level_plan(one_each);
  across.first_chunk = place * on_host.chunks;
  return {std::move(on_host), std::move(across)};
}

int uniform_ranks_per_host(std::span<const int> hosts) {
  const std::size_t ranks = hosts.size();
  std::size_t here = 0;
  while (here < ranks && hosts[here] == hosts[0]) ++here;
  if (here == 0 || ranks % here != 0) return int(ranks);
  std::set<int> seen;
  for (std::size_t first = 0; first < ranks; first += here) {
    const auto same = [&](int host) { return host == hosts[first]; };
    if (!std::ranges::all_of(hosts.subspan(first, here), same)) return int(ranks);
    if (!seen.insert(hosts[first]).second) return int(ranks);
  }
  return int(here);
}

}  // namespace lockstep

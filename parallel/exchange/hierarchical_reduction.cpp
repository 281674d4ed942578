// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/hierarchical_reduction.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace lockstep {
namespace {

std::int64_t sum_of(std::span<const int> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// All but the sums.
LevelPlan members_with(std::span<const std::vector<TreeNode>> nodes, std::vector<TreeNode>& all) {
  LevelPlan plan;
  plan.first_node.push_back(0);
  for (const std::vector<TreeNode>& of_member : nodes) {
    all.insert(all.end(), of_member.begin(), of_member.end());
    plan.first_node.push_back(int(all.size()));
    plan.layers = std::max(plan.layers, int(of_member.size()));
  }
  return plan;
}

int count_host_nodes(const PresentLeaves& present, std::span<const ShardRange> owners) {
  // Mostly a single run, found without memory of its own: many schedules are looked at.
  ShardRange run;
  for (const ShardRange& range : owners) {
    if (range.empty()) continue;
    if (!run.empty() && (range.first < run.last || present.count(run.last, range.first) > 0)) {
      int count = 0;
      for (const ShardRange& part : joined(present, owners)) count += local_nodes(present, part);
      return count;
    }
    run = {run.empty() ? range.first : run.first, range.last};
  }
  return local_nodes(present, run);
}

}  // namespace

LevelPlan make_level_plan(std::span<const std::vector<TreeNode>> nodes, const TurnSums* turn) {
  std::vector<TreeNode> all;
  LevelPlan plan = members_with(nodes, all);
  if (turn == nullptr) {
    plan.sums.push_back({{}, finish_tree(all)});
    plan.places.push_back(-1);
    return plan;
  }
  std::vector<TreeNode> after;
  for (const KeptSum& sum : turn->after) after.push_back(sum.node);
  for (const KeptSum& sum : turn->before) {
    all.push_back(sum.node);
    plan.kept.push_back(sum.place);
  }
  std::vector<NodeSum> sums = sums_to(after, all);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (turn->after[i].place >= 0 && sums[i].finish.leaves.size() == 1 &&
        sums[i].finish.leaves.front().operand >= plan.nodes())
      continue;  // kept as it is
    plan.sums.push_back(std::move(sums[i]));
    plan.places.push_back(turn->after[i].place);
  }
  return plan;
}

int max_run_nodes(int shards) {
  LOCKSTEP_ASSERT(shards >= 1);
  const int pairs = std::bit_width(unsigned(shards) + 2) - 2;  // the largest j: 2 (2^j - 1) fit
  return 2 * pairs + (std::int64_t(shards) >= (std::int64_t{3} << pairs) - 2 ? 1 : 0);
}

std::vector<int> host_node_counts(const PresentLeaves& present,
                                  std::span<const ShardRange> owners,
                                  int ranks_per_host) {
  std::vector<int> counts;
  const auto per_host = std::size_t(ranks_per_host);
  counts.reserve(owners.size() / per_host);
  for (std::size_t first = 0; first < owners.size(); first += per_host)
    counts.push_back(count_host_nodes(present, owners.subspan(first, per_host)));
  return counts;
}

LevelPlan make_host_level(const PresentLeaves& present,
                          std::span<const ShardRange> of_host,
                          std::span<const std::vector<TreeNode>> nodes,
                          int hosts) {
  std::vector<TreeNode> all;
  LevelPlan on_host = members_with(nodes, all);
  on_host.sums = sums_to(largest_nodes(present, of_host), all);
  on_host.chunks = hosts;
  return on_host;
}

LevelPlan make_level_across_hosts(const PresentLeaves& present,
                                  std::span<const ShardRange> owners,
                                  int ranks_per_host,
                                  const TurnSums* turn) {
  const auto per_host = std::size_t(ranks_per_host);
  std::vector<std::vector<TreeNode>> of_hosts;
  for (std::size_t first = 0; first < owners.size(); first += per_host)
    of_hosts.push_back(largest_nodes(present, owners.subspan(first, per_host)));
  return make_level_plan(of_hosts, turn);
}

MaxReceivedChunks::MaxReceivedChunks(const PresentLeaves& present,
                                     std::span<const ShardRange> owners,
                                     std::span<const int> node_counts)
    : node_counts_(node_counts), all_(sum_of(node_counts)) {
  const auto ranks = int(owners.size());
  for (int per_host = 2; per_host < ranks; ++per_host) {
    if (!has_two_levels(ranks, per_host)) continue;
    std::vector<int> nodes = host_node_counts(present, owners, per_host);
    const std::int64_t all = sum_of(nodes);
    hosts_.push_back({per_host, std::move(nodes), all});
  }
}

std::int64_t MaxReceivedChunks::of(int rank) const {
  const int own = node_counts_[std::size_t(rank)];
  std::int64_t most = all_ - own;
  for (const Hosts& hosts : hosts_) {
    const auto per_host = std::size_t(hosts.ranks_per_host), host = std::size_t(rank) / per_host;
    const std::int64_t on_host = sum_of(node_counts_.subspan(host * per_host, per_host));
    most = std::max(
        most, (on_host - own) * std::int64_t(hosts.nodes.size()) + hosts.all - hosts.nodes[host]);
  }
  return most;
}

}  // namespace lockstep

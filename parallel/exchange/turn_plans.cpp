// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/turn_plans.h"

#include <algorithm>
#include <bit>

#include "core/base/check.h"
#include "core/plan/ownership.h"

namespace lockstep {
namespace {

/// Gives a sum the lowest free place.
class Places {
 public:
  int take() {
    const auto free = std::ranges::find(taken_, false);
    const auto place = int(free - taken_.begin());
    if (free == taken_.end())
      taken_.push_back(true);
    else
      *free = true;
    return place;
  }
  void leave(int place) { taken_[std::size_t(place)] = false; }

 private:
  std::vector<bool> taken_;
};

/// What owners keep, turn by turn.
class KeptTree {
 public:
  explicit KeptTree(const PresentLeaves& present) : present_(present) {}

  /// `is_last`: the sum that is left is not kept.
  TurnSums take_turn(std::span<const ShardRange> owners, bool is_last) {
    done_.insert(done_.end(), owners.begin(), owners.end());
    done_ = joined(present_, done_);
    TurnSums turn{.before = std::move(kept_), .after = {}};
    auto before = turn.before.begin();
    for (const TreeNode& node : largest_nodes(present_, done_)) {
      if (before != turn.before.end() && before->node == node) {
        turn.after.push_back(*before++);
        continue;
      }
      // A sum is written after those to its left, and may stand where one of its operands does.
      for (; before != turn.before.end() && is_below(before->node, node); ++before)
        places_.leave(before->place);
      turn.after.push_back({.node = node, .place = is_last ? -1 : places_.take()});
    }
    LOCKSTEP_ASSERT(before == turn.before.end());
    if (is_last) {
      LOCKSTEP_ASSERT(turn.after.size() == 1);
      turn.after.front().place = -1;
    }
    kept_ = is_last ? std::vector<KeptSum>() : turn.after;
    return turn;
  }

 private:
  static bool is_below(TreeNode node, TreeNode above) {
    return node.level <= above.level && node.index >> (above.level - node.level) == above.index;
  }

  const PresentLeaves& present_;
  std::vector<ShardRange> done_;
  std::vector<KeptSum> kept_;
  Places places_;
};

ExchangePlan plan_turn(const PresentLeaves& present,
                       std::span<const ShardRange> owners,
                       const TurnSums& turn,
                       int rank,
                       int ranks_per_host) {
  const auto ranks = int(owners.size());
  ExchangePlan plan;
  std::vector<std::vector<TreeNode>> nodes;
  for (const ShardRange& own : owners) nodes.push_back(local_tree(present, own).nodes);
  plan.local = local_tree(present, owners[std::size_t(rank)]);
  plan.equal_counts = std::ranges::none_of(owners, &ShardRange::empty);
  plan.keeps = turn.after.front().place >= 0;
  plan.all = make_level_plan(nodes, &turn);
  plan.size = {.nodes = ranks,
               .own_nodes = plan.all.nodes_of(rank),
               .depth = plan.local.depth,
               .received_chunks = plan.all.received_by(rank)};
  if (!has_two_levels(ranks, ranks_per_host)) return plan;
  plan.by_host = make_host_levels(present, owners, nodes, rank, ranks_per_host, &turn);
  plan.size.received_chunks = plan.by_host[0].received_by(rank % ranks_per_host) +
                              plan.by_host[1].received_by(rank / ranks_per_host);
  return plan;
}

}  // namespace

std::vector<ExchangePlan> make_turn_plans(const Schedule& schedule, int rank, int ranks_per_host) {
  const PresentLeaves present(schedule.shards_of_rank, schedule.shards);
  KeptTree tree(present);
  std::vector<ExchangePlan> plans;
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const std::span<const ShardRange> owners = schedule.owners(turn);
    const TurnSums sums = tree.take_turn(owners, turn + 1 == schedule.turns);
    plans.push_back(plan_turn(present, owners, sums, rank, ranks_per_host));
  }
  return plans;
}

int max_kept_sums(int max_shards, int ranks, int cluster) {
  const int clusters = ranks / cluster;
  const int last = max_shards / cluster - 1;  // the most of a slot's shards that are kept
  if (cluster > 1) return last < clusters ? 0 : cluster * max_run_nodes(last / clusters * clusters);
  int most = 0;
  for (int done = clusters; done <= last; done += clusters)
    most = std::max(most, std::popcount(unsigned(done)));
  return most;
}

}  // namespace lockstep

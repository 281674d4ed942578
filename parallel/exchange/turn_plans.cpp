// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/turn_plans.h"

#include <algorithm>
#include <bit>
#include <utility>

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

}  // namespace

std::vector<CommonPlan> make_common_turns(const PresentLeaves& present,
                                          const Schedule& schedule,
                                          int ranks_per_host) {
  KeptTree tree(present);
  std::vector<CommonPlan> plans;
  for (int turn = 0; turn < schedule.turns; ++turn) {
    const std::span<const ShardRange> owners = schedule.owners(turn);
    const TurnSums sums = tree.take_turn(owners, turn + 1 == schedule.turns);
    plans.push_back(
        make_common_plan(present, owners, ranks_per_host, Reduction::reproducible, &sums));
  }
  return plans;
}

ExchangePlan turn_of_rank(std::shared_ptr<const CommonPlan> common,
                          const PresentLeaves& present,
                          std::span<const ShardRange> owners,
                          int rank,
                          int ranks_per_host) {
  ExchangePlan plan = plan_of_rank(
      std::move(common), present, owners, rank, ranks_per_host, Reduction::reproducible);
  plan.size.nodes = int(owners.size());
  return plan;
}

std::vector<ExchangePlan> make_turn_plans(const Schedule& schedule, int rank, int ranks_per_host) {
  const PresentLeaves present(schedule.shards_of_rank, schedule.shards);
  std::vector<ExchangePlan> plans;
  for (CommonPlan& common : make_common_turns(present, schedule, ranks_per_host))
    plans.push_back(turn_of_rank(std::make_shared<const CommonPlan>(std::move(common)),
                                 present,
                                 schedule.owners(int(plans.size())),
                                 rank,
                                 ranks_per_host));
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

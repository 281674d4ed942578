// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/plan_cache.h"

#include <cstddef>

#include "core/host/shared_values.h"
#include "parallel/exchange/turn_plans.h"

namespace lockstep {
namespace {

// Whole and last batches of a few data sets.
constexpr std::size_t kMaxPlans = 8;

/// Of the turns of a schedule what is equal on every rank.
struct CommonPlans {
  PresentLeaves present;
  std::vector<CommonPlan> turns;
};
struct CommonKey {
  ShardRanges owners;
  int shards = 0, turns = 0, ranks_per_host = 0;
  Reduction reduction = Reduction::reproducible;
  bool dealt = false;
  bool operator==(const CommonKey&) const = default;
};

CommonPlans make_common_plans(const Schedule& schedule, const CommonKey& key) {
  CommonPlans plans{PresentLeaves(schedule.shards_of_rank, schedule.shards), {}};
  if (key.dealt)
    plans.turns = make_common_turns(plans.present, schedule, key.ranks_per_host);
  else
    plans.turns.push_back(make_common_plan(
        plans.present, schedule.shards_of_rank, key.ranks_per_host, key.reduction));
  return plans;
}

}  // namespace

PlanCache::PlanCache(int rank, int ranks_per_host, Reduction reduction, bool dealt)
    : rank_(rank), ranks_per_host_(ranks_per_host), reduction_(reduction), dealt_(dealt) {
  plans_.reserve(kMaxPlans);
}

std::span<const ExchangePlan> PlanCache::of(const Schedule& schedule) {
  for (const auto& plans : plans_)
    if (plans->shards == schedule.shards && plans->owners == schedule.shards_of_rank)
      return plans->turns;
  auto plans = std::make_unique<Plans>();
  plans->shards = schedule.shards;
  plans->owners = schedule.shards_of_rank;
  plans->turns = make(schedule);
  if (plans_.size() == kMaxPlans) plans_.erase(plans_.begin());
  return plans_.emplace_back(std::move(plans))->turns;
}

std::vector<ExchangePlan> PlanCache::make(const Schedule& schedule) const {
  static SharedValues<CommonKey, CommonPlans> shared;
  const CommonKey key{schedule.shards_of_rank,
                      schedule.shards,
                      schedule.turns,
                      ranks_per_host_,
                      reduction_,
                      dealt_};
  const auto all = shared.get(
      key, [&] { return std::make_shared<const CommonPlans>(make_common_plans(schedule, key)); });
  std::vector<ExchangePlan> turns;
  for (std::size_t turn = 0; turn < all->turns.size(); ++turn) {
    const std::shared_ptr<const CommonPlan> common(all, &all->turns[turn]);
    const std::span<const ShardRange> owners = schedule.owners(int(turn));
    turns.push_back(
        dealt_ ? turn_of_rank(common, all->present, owners, rank_, ranks_per_host_)
               : plan_of_rank(common, all->present, owners, rank_, ranks_per_host_, reduction_));
  }
  return turns;
}

}  // namespace lockstep

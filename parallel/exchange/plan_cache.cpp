// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/plan_cache.h"

#include <algorithm>

#include "parallel/exchange/turn_plans.h"

namespace lockstep {
namespace {

// Whole and last batches of a few data sets.
constexpr std::size_t kMaxPlans = 8;

bool same(const ShardRange& a, const ShardRange& b) {
  return a.first == b.first && a.last == b.last;
}

}  // namespace

PlanCache::PlanCache(int rank, int ranks_per_host, Reduction reduction, bool dealt)
    : rank_(rank), ranks_per_host_(ranks_per_host), reduction_(reduction), dealt_(dealt) {
  plans_.reserve(kMaxPlans);
}

std::span<const ExchangePlan> PlanCache::of(const Schedule& schedule) {
  for (const auto& plans : plans_)
    if (plans->shards == schedule.shards &&
        std::ranges::equal(plans->owners, schedule.shards_of_rank, same))
      return plans->turns;
  if (plans_.size() == kMaxPlans) plans_.erase(plans_.begin());
  Plans& plans = *plans_.emplace_back(std::make_unique<Plans>());
  plans.shards = schedule.shards;
  plans.owners = schedule.shards_of_rank;
  if (dealt_)
    plans.turns = make_turn_plans(schedule, rank_, ranks_per_host_);
  else
    plans.turns.push_back(make_exchange_plan(
        schedule.shards, schedule.shards_of_rank, rank_, ranks_per_host_, reduction_));
  return plans.turns;
}

}  // namespace lockstep

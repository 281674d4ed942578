// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lockstep/schedule.h"
#include "lockstep/train_options.h"
#include "parallel/exchange/exchange_plan.h"

namespace lockstep {

/// The plans of a rank's schedules; of many, those that were made last.
class PlanCache {
 public:
  PlanCache(int rank, int ranks_per_host, Reduction reduction, bool dealt);

  /// Of each turn. Valid until the next call.
  std::span<const ExchangePlan> of(const Schedule& schedule);

 private:
  struct Plans {
    int shards = 0;
    ShardRanges owners;
    std::vector<ExchangePlan> turns;
  };

  std::vector<ExchangePlan> make(const Schedule& schedule) const;

  int rank_, ranks_per_host_;
  Reduction reduction_;
  bool dealt_;
  std::vector<std::unique_ptr<Plans>> plans_;
};

}  // namespace lockstep

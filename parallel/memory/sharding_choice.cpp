// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/sharding_choice.h"

namespace lockstep {

ShardingChoice choose_sharding(Backend& device,
                               const PlanRequest& request,
                               const MemoryTarget& room) {
  ShardingChoice choice;
  if (request.ranks == 1 || request.options.reduction == Reduction::fast) return choice;
  const auto bytes_with = [&](Sharding sharding) -> std::optional<std::uint64_t> {
    PlanRequest asked = request;
    asked.options.sharding = sharding;
    const std::optional<MemoryPlan> plan = try_plan_memory(device, asked);
    if (!plan) return std::nullopt;
    return room.needed(plan->table);
  };
  choice.none_bytes = bytes_with(Sharding::none);
  if (choice.none_bytes && *choice.none_bytes <= room.bytes) return choice;
  choice.sharding = Sharding::optimizer;
  choice.optimizer_bytes = bytes_with(Sharding::optimizer);
  return choice;
}

}  // namespace lockstep

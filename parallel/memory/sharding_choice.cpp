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
  std::optional<std::uint64_t> least;
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients}) {
    const auto needed = choice.bytes[std::size_t(sharding)] = bytes_with(sharding);
    // Padding of small models can take more than their state.
    if (!needed || (least && *needed >= *least)) continue;
    least = needed;
    choice.sharding = sharding;
    if (*needed <= room.bytes) break;
  }
  return choice;
}

}  // namespace lockstep

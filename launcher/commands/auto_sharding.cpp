// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/auto_sharding.h"

#include <fmt/format.h>

#include "core/base/number_format.h"
#include "parallel/memory/sharding_choice.h"

namespace lockstep {

std::string resolve_sharding(RankContext& context,
                             const PlanRequest& request,
                             const MemoryTarget& room,
                             TrainFlags& flags) {
  const ShardingChoice choice = choose_sharding(context.backend(), request, room);
  flags.chooses_sharding = false;
  flags.options.sharding = choice.sharding;
  const auto bytes = [](const std::optional<std::uint64_t>& taken) {
    return taken ? format_bytes(double(*taken)) : std::string("more than --memory-limit");
  };
  if (choice.sharding == Sharding::optimizer)
    return fmt::format("shard auto: optimizer; a rank takes {}, without {}",
                       bytes(choice.optimizer_bytes),
                       bytes(choice.none_bytes));
  if (!choice.none_bytes) return "shard auto: none; nothing can be divided";
  return fmt::format("shard auto: none; a rank takes {}", bytes(choice.none_bytes));
}

}  // namespace lockstep

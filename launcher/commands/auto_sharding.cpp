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
  if (choice.sharding == Sharding::none)
    return choice.none_bytes ? fmt::format("shard auto: none; a rank takes {}",
                                           format_bytes(double(*choice.none_bytes)))
                             : "shard auto: none; there is nothing to divide";
  const auto bytes = [](const std::optional<std::uint64_t>& taken) {
    return taken ? format_bytes(double(*taken)) : std::string("more than --memory-limit");
  };
  return fmt::format("shard auto: optimizer; a rank takes {}, without {}",
                     bytes(choice.optimizer_bytes),
                     bytes(choice.none_bytes));
}

}  // namespace lockstep

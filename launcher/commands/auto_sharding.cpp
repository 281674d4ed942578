// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/auto_sharding.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/number_format.h"
#include "core/exec/gather_records.h"
#include "parallel/memory/sharding_choice.h"

namespace lockstep {

std::string resolve_sharding(RankContext& context,
                             const PlanRequest& request,
                             const MemoryTarget& room,
                             TrainFlags& flags) {
  ShardingChoice choice = choose_sharding(context.backend(), request, room);
  // Kernels of different devices may want different memory: what one rank needs, all do.
  for (const Sharding sharding : gather_records(context.host_communicator(), choice.sharding))
    choice.sharding = std::max(choice.sharding, sharding);
  flags.chooses_sharding = false;
  flags.options.sharding = choice.sharding;
  const auto bytes = [](const std::optional<std::uint64_t>& taken) {
    return taken ? format_bytes(double(*taken)) : std::string("more than --memory-limit");
  };
  if (choice.sharding == Sharding::optimizer)
    return fmt::format("shard auto: optimizer; a rank takes {}, without {}",
                       bytes(choice.optimizer_bytes),
                       bytes(choice.none_bytes));
  if (!choice.none_bytes && context.size() == 1) return "shard auto: none, with one rank";
  return fmt::format("shard auto: none; a rank takes {}", bytes(choice.none_bytes));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/auto_sharding.h"

#include <fmt/format.h>

#include "core/base/text/number_format.h"
#include "core/exec/agreement.h"
#include "parallel/memory/sharding_choice.h"

namespace lockstep {

std::string resolve_sharding(RankContext& context,
                             const PlanRequest& request,
                             const MemoryTarget& room,
                             TrainFlags& flags) {
  ShardingChoice choice = choose_sharding(context.backend(), request, room);
  // Kernels of different devices may want different memory: what one rank needs, all do.
  choice.sharding = Sharding(largest(context.host_communicator(), std::uint64_t(choice.sharding)));
  flags.chooses_sharding = false;
  flags.options.sharding = choice.sharding;
  const auto bytes = [](const std::optional<std::uint64_t>& taken) {
    return taken ? format_bytes(double(*taken)) : std::string("more than --memory-limit");
  };
  const auto none_bytes = choice.bytes_with(Sharding::none);
  if (choice.sharding != Sharding::none)
    return fmt::format("shard auto: {}; a rank takes {}, without {}",
                       name_of(choice.sharding),
                       bytes(choice.bytes_with(choice.sharding)),
                       bytes(none_bytes));
  if (!none_bytes && context.size() == 1) return "shard auto: none, with one rank";
  return fmt::format("shard auto: none; a rank takes {}", bytes(none_bytes));
}

}  // namespace lockstep

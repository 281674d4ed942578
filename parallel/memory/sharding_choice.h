// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/memory/memory_advisor.h"

namespace lockstep {

/// What `--shard auto` takes, and why.
struct ShardingChoice {
  Sharding sharding = Sharding::none;
  /// That a rank needs with each, in the order of Sharding; nothing: more than the memory limit, or
  /// not looked at.
  std::optional<std::uint64_t> none_bytes, optimizer_bytes;
};

/// The least sharding with which `request` fits both options.memory_limit and `room` (bytes: ~0 for
/// any number): none where that does, or where nothing does that could be divided, with one rank or
/// Reduction::fast; otherwise `optimizer`, whether it fits or not. Equal on all ranks for an equal
/// request and room.
ShardingChoice choose_sharding(Backend& device,
                               const PlanRequest& request,
                               const MemoryTarget& room);

}  // namespace lockstep

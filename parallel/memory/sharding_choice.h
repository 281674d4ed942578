// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "parallel/memory/memory_advisor.h"

namespace lockstep {

/// What `--shard auto` takes, and why.
struct ShardingChoice {
  Sharding sharding = Sharding::none;
  /// That a rank needs with each, in the order of Sharding; nothing: more than the memory limit, or
  /// not looked at.
  std::array<std::optional<std::uint64_t>, 3> bytes;

  std::optional<std::uint64_t> bytes_with(Sharding which) const {
    return bytes[std::size_t(which)];
  }
};

/// The least sharding with which `request` fits both options.memory_limit and `room` (bytes: ~0 for
/// any number): none where there is nothing to divide, with one rank or Reduction::fast; where none
/// fits the one that takes the least. Equal on all ranks for an equal request and room.
ShardingChoice choose_sharding(Backend& device,
                               const PlanRequest& request,
                               const MemoryTarget& room);

}  // namespace lockstep

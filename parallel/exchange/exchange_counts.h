// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// How far the step's shards are: equal places, of equal schedules, continue alike.
struct ShardPlace {
  int finished = 0;
  int pending = 0;  ///< sums of them
  int merges = 0;   ///< of those with the next shard
};

}  // namespace lockstep

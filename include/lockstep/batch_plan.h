// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// How the global batch of a run is cut, all numbers consistent with each other: Replica::batch().
/// Ranks compute micro-batches; the gradients of a shard's micro-batches are summed in order, and
/// then those of the shards in a fixed tree, so that the sum does not depend on the ranks.
struct BatchPlan {
  std::int64_t global_batch = 0;   ///< samples an update sees, of all ranks
  std::int64_t micro_batch = 0;    ///< samples a rank computes at once
  std::int64_t micro_batches = 0;  ///< of a global batch: global_batch / micro_batch, rounded up
  int shards = 0;                  ///< parts of the global batch, dealt to the ranks
  int ranks = 1;
  int cluster = 1;              ///< ranks that form one batch-norm group; 1: groups are local
  std::int64_t group_size = 0;  ///< samples in a local group; 0: the micro-batch
  /// Whether ranks take turns with shards, as with Sharding::gradients, instead of consecutive
  /// ones.
  bool dealt = false;

  /// "global batch 256 = 8 micro-batches of 32 on 2 ranks, 8 shards"
  std::string to_string() const;
};

}  // namespace lockstep

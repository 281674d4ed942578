// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rank_context.h"
#include "parallel/memory/memory_advisor.h"

namespace lockstep {

/// A micro-batch that could be taken.
struct MicroBatchTrial {
  std::int64_t micro_batch = 0;
  std::uint64_t device_bytes = 0;  ///< see MemoryTable::on_device()
  bool fits = false;
  /// Of all micro-batches of a step, and of adding up their shards, on the rank with the most;
  /// nothing: not measured, as steps had become slower with every size before.
  std::optional<double> step_seconds;
};

/// The micro-batch that `--micro-batch auto` takes, and why.
struct MicroBatchChoice {
  std::int64_t micro_batch = 0;
  Recompute recompute = Recompute::none;  ///< automatic where nothing fits without
  std::uint64_t memory_limit = 0;         ///< that recomputation has to fit; 0: none
  std::vector<MicroBatchTrial> trials;    ///< in ascending order
};

/// Micro-batches that give every rank the same work, or nearly: of ceil(global_batch / (ranks * k))
/// for k = 1, 2, ... those nearest to steps of the square root of 2 down from k = 1; one that
/// divides exactly goes before one that does not. Ascending.
std::vector<std::int64_t> even_micro_batches(std::int64_t global_batch, int ranks);

/// A size is as fast as the fastest where it is at most so many times as slow: what such a short
/// measurement cannot tell apart.
inline constexpr double kAsFast = 1.02;

/// The largest that is as fast as the fastest of even_micro_batches(), by a short measurement of
/// those whose plan fits both
/// options.memory_limit and `room` (bytes: ~0 for any number). Where none does and
/// options.recompute is none, recomputation is brought in. The global batch stays what it is.
/// `request.options` must have neither a micro-batch nor an accumulation. Collective, with the same
/// request and room on every rank; so is the result. Throws OutOfMemory: not even the smallest fits
/// with everything computed again; ConfigError: no micro-batch can be planned.
MicroBatchChoice choose_micro_batch(RankContext& context,
                                    const PlanRequest& request,
                                    const MemoryTarget& room);

}  // namespace lockstep

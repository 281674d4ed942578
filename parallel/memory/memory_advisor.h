// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// What a rank's plan has to fit, in addition to the request's own memory_limit.
struct MemoryTarget {
  std::uint64_t bytes = 0;
  /// Host memory, in which snapshot and loader lie as well; otherwise on_device() alone counts.
  bool host = false;
  /// Ranks of a host among which its memory is divided: with fewer of them each has more.
  int colocated_ranks = 1;
  /// What the target's rank needs beyond the plan made here: its kernels may want more.
  std::uint64_t more = 0;

  /// What of rank 0's table counts, and `more`.
  std::uint64_t needed(const MemoryTable& table) const;
};

/// A change of a training's settings with which it fits, and computes the same global batch.
struct MemoryFix {
  std::int64_t micro_batch = 0;        ///< 0: as it is
  std::int64_t accumulation = 0;       ///< that it divides the batch into evenly; 0: not given
  Sharding sharding = Sharding::none;  ///< none: as it is
  bool recompute = false;              ///< --recompute auto
  std::uint64_t memory_limit = 0;      ///< of it; 0: as it is
  int ranks = 0;                       ///< 0: as they are
  std::uint64_t needed = 0;            ///< MemoryTarget::needed() with the change
  std::uint64_t saved = 0;             ///< less than without it

  /// "--micro-batch 24 --accumulation 4", to be added to a command. Without `ranks`, which under a
  /// launcher is not a flag.
  std::string flags() const;
};

/// The plan that comes closest to fitting, of those that some settings allow.
struct MinMemory {
  std::int64_t micro_batch = 0;
  std::uint64_t needed = 0;  ///< MemoryTarget::needed()
  MemoryPlan plan;
};

/// Settings that change what is trained.
struct OtherSetting {
  std::string flags;  ///< "--precision bf16 --micro-batch 4", all that it takes where it fits
  std::uint64_t needed = 0;  ///< MemoryTarget::needed(); where it does not fit, the least
  bool fits = false;
};

struct MemoryAdvice {
  std::uint64_t needed = 0;  ///< as asked: MemoryTarget::needed() of plan_min_memory()
  std::optional<MemoryFix> fix = {};
  // Where there is none:
  std::optional<MinMemory> least = {};  ///< with recompute
  std::vector<OtherSetting> others = {};
};

/// Rank 0's plan for the micro-batch that the request has, as if it had no memory_limit: with
/// Recompute::automatic, of the choices that this may make, the one that takes the least. Throws
/// ConfigError.
MemoryPlan plan_min_memory(Backend& device, PlanRequest request);

/// The micro-batch that takes the least memory with the recomputation that the request allows, of
/// the powers of two and the smallest that the batch can be planned with. That need not be 1, which
/// makes the most shards, whose sums are pending. Throws ConfigError: none can be planned.
MinMemory min_memory(Backend& device, const PlanRequest& request, const MemoryTarget& target);

/// The cheapest change with which `request` fits, found by planning it: a sharded optimizer, which
/// changes no bit and sends no more; a smaller micro-batch, the
/// largest that largest_micro_batch() finds and one that divides the global batch evenly unless
/// that costs half of it; then recomputation, with the largest micro-batch that then fits; then
/// sharded gradients, which send more, alone or with any of these; then fewer ranks a host. Neither
/// `request.options.memory_limit` nor the target is exceeded. Throws ConfigError.
MemoryAdvice advise(Backend& device, const PlanRequest& request, const MemoryTarget& target);

}  // namespace lockstep

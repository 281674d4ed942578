// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"

namespace lockstep {

/// The gradient of one shard, before it is added to any other.
struct ShardNorm {
  std::int64_t step = 0;  ///< from 0
  std::int64_t shard = 0;
  std::int64_t samples = 0;       ///< of the shard
  std::int64_t step_samples = 0;  ///< of the global batch
  double squared = 0;  ///< squared norm of the sum over its samples of gradient / step_samples
};

/// Squared norms of the gradients of this rank's shards, in every `every`-th step, as far as
/// it has a whole global batch of two shards at least: what the noise scale is made of. Each bucket
/// is looked at when it is complete and before it is exchanged, so that it comes from the caches.
/// Sums are in declaration order: the bits depend on neither buckets nor ranks. All of it is work
/// of the device, which the host asks for and does not wait for: norms are copied to it before the
/// outcome of their step is. Allocates nothing after construction.
class ShardNorms {
 public:
  /// Between two calls of take() no more steps are measured.
  static constexpr std::size_t kMaxSteps = 16;

  /// `every` 0: never. `max_shards`: of this rank in a step. `gradients` must outlive it.
  ShardNorms(Backend& backend,
             const Graph& graph,
             const FlatSpace& space,
             const float* gradients,
             std::int64_t every,
             int max_shards);
  /// Waits for the copies under way.
  ~ShardNorms();
  ShardNorms(const ShardNorms&) = delete;
  ShardNorms& operator=(const ShardNorms&) = delete;

  /// Step number `step` begins; `suits`: its batch can be measured, which all ranks know alike.
  void begin_step(std::int64_t step, bool suits);
  /// Whether it is measured: equal on all ranks.
  bool measures() const { return measures_; }
  /// Whether step number `step` is one of those measured since the last take(); equal as well.
  bool has_measured(std::int64_t step) const;
  /// How many were measured since then; equal as well.
  std::size_t measured_steps() const { return taken_ ? 0 : steps_.size(); }
  /// The gradients of `bucket` are the shard's.
  void add_bucket(int bucket);
  /// All buckets of it were added.
  void end_shard(std::int64_t shard, std::int64_t samples, std::int64_t step_samples);

  /// Norms so far, in the order of steps and shards; valid until the next begin_step(). Waits for
  /// the device where the host does not know the outcome of the last of these steps.
  std::span<const ShardNorm> take();

  /// Of the device, and of host memory that it copies to.
  std::size_t bytes() const;

 private:
  /// Parameters of a bucket that are declared one after another.
  struct Run {
    std::size_t first = 0;  // in declaration order, of trained parameters
    std::vector<FlatRange> ranges;
  };

  Backend& backend_;
  const float* gradients_;
  std::int64_t every_;
  std::vector<std::vector<Run>> buckets_;
  std::size_t parameters_ = 0;             // trained
  std::unique_ptr<DeviceBuffer> squared_;  // [trained parameters + 1] of the open shard, their sum
  std::unique_ptr<DeviceBuffer> slots_;    // [kMaxSteps * max_shards], host: of norms_
  std::unique_ptr<DeviceEvent> copied_;    // behind the last copy
  std::vector<ShardNorm> norms_;
  std::vector<std::int64_t> steps_;  // measured
  std::int64_t step_ = 0;
  bool measures_ = false, taken_ = false;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/plan/gradient_space.h"

namespace lockstep {

/// The gradient of one shard, before it is added to any other.
struct ShardNorm {
  std::int64_t step = 0;  ///< from 0
  std::int64_t shard = 0;
  std::int64_t samples = 0;       ///< of the shard
  std::int64_t step_samples = 0;  ///< of the global batch
  double squared = 0;  ///< squared norm of the sum over its samples of gradient / step_samples
};

/// Squared norms of the gradients of this rank's shards, from which the noise scale is computed.
/// Measures every `every`-th step that has a whole global batch of at least two shards. Reads each
/// bucket when it is complete and before it is exchanged, while caches still hold it. Sums are in
/// declaration order: the bits depend on neither buckets nor ranks. The host enqueues all of this
/// and does not wait: the device copies the norms to the host before the outcome of their step.
/// Allocates nothing after construction.
class ShardNorms {
 public:
  /// Max steps measured between two calls of take().
  static constexpr std::size_t kMaxSteps = 16;

  /// `places`: of `gradients`. `every` 0: measures nothing. `max_shards`: of this rank in a step.
  /// `gradients` must outlive it.
  ShardNorms(Backend& backend,
             const Graph& graph,
             const FlatSpace& space,
             const float* gradients,
             const GradientSpace& places,
             std::int64_t every,
             int max_shards);
  /// Waits for the copies under way.
  ~ShardNorms();
  ShardNorms(const ShardNorms&) = delete;
  ShardNorms& operator=(const ShardNorms&) = delete;

  /// Step `step` (from 0) begins. `suits`: its batch can be measured; equal on all ranks.
  void begin_step(std::int64_t step, bool suits);
  /// Whether the current step is measured: equal on all ranks.
  bool measures() const { return measures_; }
  /// Whether step `step` was measured since the last take(): equal on all ranks.
  bool has_measured(std::int64_t step) const;
  /// Count of steps measured since the last take(): equal on all ranks.
  std::size_t measured_steps() const { return taken_ ? 0 : steps_.size(); }
  /// The gradients of `bucket` are complete, and hold the current shard alone.
  void add_bucket(int bucket);
  /// All buckets of shard `shard` were added.
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
  std::unique_ptr<DeviceEvent> copied_;    // recorded after the last copy
  std::vector<ShardNorm> norms_;
  std::vector<std::int64_t> steps_;  // measured
  std::int64_t step_ = 0;
  bool measures_ = false, taken_ = false;
};

}  // namespace lockstep

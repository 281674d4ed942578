// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/step/shard_norms.h"
#include "lockstep/rank_context.h"
#include "lockstep/step_result.h"
#include "parallel/monitor/noise_scale.h"

namespace lockstep {

/// Brings together what ranks measured of their shards (ShardNorms) with the norms of whole
/// gradients, which each rank has in its results, and follows the noise scale: equal on every rank,
/// and on any number of them. All of it must outlive the watch.
class NoiseWatch {
 public:
  NoiseWatch(RankContext& context, ShardNorms& norms);

  /// A step's result, in the order of steps.
  void take(const StepResult& result);
  /// What was measured counts from now on; the results of all steps have been taken
  /// (Replica::finish_steps()). Collective where a step was measured since the last call, which all
  /// ranks know alike; otherwise nothing happens.
  void gather();
  /// Whether gather() is due, so that no measurement is missed.
  bool due() const;
  /// A rollback: what was measured since the last gather() does not count.
  void forget();

  const NoiseScale& scale() const { return scale_; }

 private:
  /// Fills steps_, but for what results say: rank 0 adds up the norms of all ranks, in the order of
  /// shards.
  void gather_shards();

  RankContext& context_;
  ShardNorms& shard_norms_;
  NoiseScale scale_;
  std::vector<StepResult> results_;   // of measured steps since the last gather()
  std::vector<ShardNorm> own_;        // of this rank
  std::vector<ShardNorm> norms_;      // of all ranks, on rank 0
  std::vector<GradientNorms> steps_;  // [results_]
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// What a part of a step does.
enum class StepWork : std::uint8_t {
  forward,          ///< kernels of a program's forward pass
  backward,         ///< kernels of its backward pass
  start_bucket,     ///< starts the exchange of a bucket, whose gradients are complete
  reuse_gradients,  ///< waits for the exchange of buckets where the next gradients are written
  sum_shard,        ///< adds the gradients of a shard to those of the shards before
  finish_buckets,   ///< waits for the exchange
  update            ///< outcome, optimizer and running statistics
};

/// A part of a step that runs without a break.
struct StepPart {
  StepWork work = StepWork::forward;
  int first = 0, end = 0;  ///< kernels of the pass [first, end); of start_bucket, `first` is it; of
                           ///< reuse_gradients, an index of GradientSpace::reuses()
  bool on_host = false;    ///< the host does it anew in each step, as what MPI moves: no graph can
  bool ends_phase = false;  ///< the part after it is timed apart from it
};

/// What a step asks for between the loading of one micro-batch and the next, in order. Runs of
/// parts that are not the host's are what a graph can hold.
using StepPlan = std::vector<StepPart>;

}  // namespace lockstep

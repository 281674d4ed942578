// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/linear/small_linear.cuh"
#include "kernels/cuda/losses/small_loss.cuh"
#include "kernels/cuda/small_elementwise.cuh"

/// See Note [Small programs] in fused_small_kernels.h.
namespace lockstep::cuda {

/// One step of a block program.
struct BlockStep {
  enum class Kind : std::int8_t {
    linear,
    linear_bwd_data,
    linear_bwd_weights,
    relu,
    relu_bwd,
    loss,
  };
  /// Four bytes, which are read at once.
  struct Head {
    Kind kind;
    bool meets;              ///< threads meet before it, as it needs what other threads have done
    std::int16_t loads_end;  ///< which loads of the program come before it
  };
  Head head;
  union {
    SmallLinear linear;
    SmallLinearBwdData linear_bwd_data;
    SmallLinearBwdWeights linear_bwd_weights;
    SmallElementwise elementwise;
    SmallLoss loss;
  };
};

/// Called by all threads of one block, a multiple of 32. `head`: the step's; `accumulate`:
/// RunState's; `staged`: what the step's places count from; `rows`: kSmallLossSharedBytes. Both are
/// in shared memory. Threads read what the step says before they meet.
__device__ inline void run_step(
    BlockStep::Head head, const BlockStep& step, bool accumulate, float* staged, float* rows) {
  const auto meet = [&] {
    if (head.meets) __syncthreads();
  };
  switch (head.kind) {
    case BlockStep::Kind::linear: {
      const SmallLinear s = step.linear;
      meet();
      return run_step(s, staged);
    }
    case BlockStep::Kind::linear_bwd_data: {
      const SmallLinearBwdData s = step.linear_bwd_data;
      meet();
      return run_step(s, staged);
    }
    case BlockStep::Kind::linear_bwd_weights: {
      const SmallLinearBwdWeights s = step.linear_bwd_weights;
      meet();
      return run_step(s, accumulate, staged);
    }
    case BlockStep::Kind::relu:
    case BlockStep::Kind::relu_bwd: {
      const SmallElementwise s = step.elementwise;
      meet();
      if (head.kind == BlockStep::Kind::relu) return map_step(Relu{}, s, staged);
      return map_step(ReluGradient{}, s, staged);
    }
    case BlockStep::Kind::loss: {
      const SmallLoss s = step.loss;
      meet();
      return run_step(s, accumulate, staged, rows);
    }
  }
}

}  // namespace lockstep::cuda

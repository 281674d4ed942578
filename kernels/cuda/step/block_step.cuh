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
  Kind kind;
  bool meets;              ///< threads meet before it, as it needs what other threads have done
  std::int16_t loads_end;  ///< what loads of the program have to be done before it
  union {
    SmallLinear linear;
    SmallLinearBwdData linear_bwd_data;
    SmallLinearBwdWeights linear_bwd_weights;
    SmallElementwise elementwise;
    SmallLoss loss;
  };
};

/// Called by all threads of one block, a multiple of 32. `accumulate`: RunState's; `staged`: what
/// the step's places count from; `rows`: kSmallLossSharedBytes. Both are in shared memory.
__device__ inline void run_step(const BlockStep& step,
                                bool accumulate,
                                float* staged,
                                float* rows) {
  switch (step.kind) {
    case BlockStep::Kind::linear:
      return run_step(step.linear, staged);
    case BlockStep::Kind::linear_bwd_data:
      return run_step(step.linear_bwd_data, staged);
    case BlockStep::Kind::linear_bwd_weights:
      return run_step(step.linear_bwd_weights, accumulate, staged);
    case BlockStep::Kind::relu:
      return map_step(Relu{}, step.elementwise, staged);
    case BlockStep::Kind::relu_bwd:
      return map_step(ReluGradient{}, step.elementwise, staged);
    case BlockStep::Kind::loss:
      return run_step(step.loss, accumulate, staged, rows);
  }
}

}  // namespace lockstep::cuda

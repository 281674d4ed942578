// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/linear/small_linear.cuh"
#include "kernels/cuda/losses/small_loss.cuh"
#include "kernels/cuda/small_elementwise.cuh"

/// See Note [Small programs] in fused_small_kernels.h.
namespace lockstep::cuda {

/// One step of a block program.
struct BlockStep {
  enum class Kind : std::int32_t {
    linear,
    linear_bwd_data,
    linear_bwd_weights,
    relu,
    relu_bwd,
    loss,
  };
  Kind kind;
  union {
    SmallLinear linear;
    SmallLinearBwdData linear_bwd_data;
    SmallLinearBwdWeights linear_bwd_weights;
    SmallElementwise elementwise;
    SmallLoss loss;
  };
};

inline constexpr std::size_t kBlockStepSharedBytes = kSmallLinearSharedBytes > kSmallLossSharedBytes
                                                         ? kSmallLinearSharedBytes
                                                         : kSmallLossSharedBytes;

/// Called by all threads of one block, a multiple of 32. `accumulate`: RunState's; `shared`:
/// kBlockStepSharedBytes of shared memory.
__device__ inline void run_step(const BlockStep& step, bool accumulate, unsigned char* shared) {
  switch (step.kind) {
    case BlockStep::Kind::linear:
      return run_step(step.linear, shared);
    case BlockStep::Kind::linear_bwd_data:
      return run_step(step.linear_bwd_data, shared);
    case BlockStep::Kind::linear_bwd_weights:
      return run_step(step.linear_bwd_weights, accumulate, shared);
    case BlockStep::Kind::relu:
      return map_step(Relu{}, step.elementwise.y, step.elementwise.elems, step.elementwise.a);
    case BlockStep::Kind::relu_bwd:
      return map_step(ReluGradient{},
                      step.elementwise.y,
                      step.elementwise.elems,
                      step.elementwise.a,
                      step.elementwise.b);
    case BlockStep::Kind::loss:
      return run_step(step.loss, accumulate, shared);
  }
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/optimizers/update_kernel.cuh"

/// Rules that optimizers which orthogonalize matrices have in common.
namespace lockstep::cuda {

struct NesterovDirection {
  static constexpr int kState = 1;
  float momentum;
  // Of the range.
  float grad_scale = 1;

  __device__ void enter(const FlatRange&, const LaunchCounters&, const TensorFacts& tensor) {
    grad_scale = tensor.grad_scale;
  }

  __device__ float direction(float /*param*/, float grad, float* state) const {
    const float g = grad * grad_scale;
    const float m = momentum * state[0] + g;
    state[0] = m;
    return g + momentum * m;
  }
};

struct NormalizedDirection {
  static constexpr int kState = 0;
  double eps;
  // Of the range.
  float inverse = 1;

  __device__ void enter(const FlatRange&, const LaunchCounters&, const TensorFacts& tensor) {
    inverse = float(1.0 / (tensor.direction_norm + eps));
  }

  __device__ float direction(float /*param*/, float direction, float* /*state*/) const {
    return direction * inverse;
  }
};

/// Of all other parameters: Adam with decoupled decay. Corrections: scalars of the step by their
/// indices.
struct OtherRule {
  static constexpr int kState = 2;
  float beta1, beta2, eps;
  int first_correction, second_correction;
  // Of the range.
  float keep = 0, step_size = 0, root_correction = 0;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    keep = float(1.0 - lr * double(range.weight_decay));
    step_size = float(lr / counters.scalar(first_correction));
    root_correction = float(counters.scalar(second_correction));
  }

  __device__ float update(float param, float grad, float* state) const {
    const float m = beta1 * state[0] + (1.0f - beta1) * grad;
    const float v = beta2 * state[1] + (1.0f - beta2) * (grad * grad);
    state[0] = m;
    state[1] = v;
    return param * keep - step_size * (m / (sqrtf(v) * root_correction + eps));
  }
};

/// Of an optimizer with these members.
template <typename Optimizer>
OtherRule other_rule(const Optimizer& optimizer) {
  return {.beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .eps = optimizer.eps,
          .first_correction = Optimizer::kFirstCorrection,
          .second_correction = Optimizer::kRootCorrection};
}

}  // namespace lockstep::cuda

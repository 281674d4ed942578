// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct LambDirection {
  static constexpr int kState = 2;
  float beta1, beta2, eps;
  // Of the range.
  float grad_scale = 1, weight_decay = 0, first_correction = 0, root_correction = 0;

  __device__ void enter(const FlatRange& range,
                        const LaunchCounters& counters,
                        const TensorFacts& tensor) {
    grad_scale = tensor.grad_scale;
    weight_decay = range.weight_decay;
    first_correction = float(counters.scalar(Lamb::kFirstCorrection));
    root_correction = float(counters.scalar(Lamb::kRootCorrection));
  }

  __device__ float direction(float param, float grad, float* state) const {
    const float g = grad * grad_scale;
    const float m = beta1 * state[0] + (1.0f - beta1) * g;
    const float v = beta2 * state[1] + (1.0f - beta2) * (g * g);
    state[0] = m;
    state[1] = v;
    return m * first_correction / (sqrtf(v) * root_correction + eps) + weight_decay * param;
  }
};

struct LambRule {
  static constexpr int kState = 0;
  // Of the range.
  float rate = 0;

  __device__ void enter(const FlatRange& range,
                        const LaunchCounters& counters,
                        const TensorFacts& tensor) {
    double ratio = 1.0;
    if (tensor.is_tensor && tensor.weight_norm > 0 && tensor.direction_norm > 0)
      ratio = tensor.weight_norm / tensor.direction_norm;
    rate = float(double(counters.lr()) * double(range.lr_scale) * ratio);
  }

  __device__ float update(float param, float direction, float* /*state*/) const {
    return param - rate * direction;
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const Lamb& lamb,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  if (update.phase == UpdatePhase::direction)
    launch_update(
        "lamb_direction", device, LambDirection{lamb.beta1, lamb.beta2, lamb.eps}, update, ranges);
  else
    launch_update("lamb_update", device, LambRule{}, update, ranges);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct LarsRule {
  static constexpr int kState = 1;
  float momentum, trust_coefficient;
  // Of the range.
  float grad_scale = 1, weight_decay = 0, rate = 0;

  __device__ void enter(const FlatRange& range,
                        const LaunchCounters& counters,
                        const TensorFacts& tensor) {
    grad_scale = tensor.grad_scale;
    weight_decay = range.weight_decay;
    const double grad_norm = tensor.direction_norm * double(grad_scale);
    double ratio = 1.0;
    if (tensor.is_tensor && tensor.weight_norm > 0 && grad_norm > 0)
      ratio = double(trust_coefficient) * tensor.weight_norm /
              (grad_norm + double(weight_decay) * tensor.weight_norm);
    rate = float(double(counters.lr()) * double(range.lr_scale) * ratio);
  }

  __device__ float update(float param, float grad, float* state) const {
    const float g = grad * grad_scale + weight_decay * param;
    const float m = momentum * state[0] + rate * g;
    state[0] = m;
    return param - m;
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const Lars& lars,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  launch_update(
      "lars_update", device, LarsRule{lars.momentum, lars.trust_coefficient}, update, ranges);
}

}  // namespace lockstep::cuda

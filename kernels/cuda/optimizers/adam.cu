// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct AdamRule {
  static constexpr int kState = 2;
  float beta1, beta2, eps;
  // Of the range.
  float weight_decay = 0, step_size = 0, root_correction = 0;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    weight_decay = range.weight_decay;
    step_size = float(lr / counters.scalar(Adam::kFirstCorrection));
    root_correction = float(counters.scalar(Adam::kRootCorrection));
  }

  __device__ float update(float param, float grad, float* state) const {
    const float g = grad + weight_decay * param;
    const float m = beta1 * state[0] + (1.0f - beta1) * g;
    const float v = beta2 * state[1] + (1.0f - beta2) * (g * g);
    state[0] = m;
    state[1] = v;
    return param - step_size * (m / (sqrtf(v) * root_correction + eps));
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const Adam& adam,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  launch_update("adam_update", device, AdamRule{adam.beta1, adam.beta2, adam.eps}, update, ranges);
}

}  // namespace lockstep::cuda

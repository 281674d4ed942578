// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct LionRule {
  static constexpr int kState = 1;
  float beta1, beta2;
  // Of the range.
  float keep = 0, step_size = 0;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    keep = float(1.0 - lr * double(range.weight_decay));
    step_size = float(lr);
  }

  __device__ float update(float param, float grad, float* state) const {
    const float direction = beta1 * state[0] + (1.0f - beta1) * grad;
    state[0] = beta2 * state[0] + (1.0f - beta2) * grad;
    const float kept = param * keep;
    return direction > 0.0f ? kept - step_size : direction < 0.0f ? kept + step_size : kept;
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const Lion& lion,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  launch_update("lion_update", device, LionRule{lion.beta1, lion.beta2}, update, ranges);
}

}  // namespace lockstep::cuda

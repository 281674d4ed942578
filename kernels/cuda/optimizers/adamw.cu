// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct AdamWRule {
  static constexpr int kState = 2;
  float beta1, beta2, eps;
  // Of the range.
  float keep = 0, step_size = 0, root_correction = 0;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    keep = float(1.0 - lr * double(range.weight_decay));
    step_size = float(lr / counters.scalar(AdamW::kFirstCorrection));
    root_correction = float(counters.scalar(AdamW::kRootCorrection));
  }

  __device__ float update(float param, float grad, float* state) const {
    const float m = beta1 * state[0] + (1.0f - beta1) * grad;
    const float v = beta2 * state[1] + (1.0f - beta2) * (grad * grad);
    state[0] = m;
    state[1] = v;
    return param * keep - step_size * (m / (sqrtf(v) * root_correction + eps));
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const AdamW& adamw,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  launch_update(
      "adamw_update", device, AdamWRule{adamw.beta1, adamw.beta2, adamw.eps}, update, ranges);
}

}  // namespace lockstep::cuda

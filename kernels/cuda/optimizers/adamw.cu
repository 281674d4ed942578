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
    // Of zero, square root and quotient have long paths of their own, which whole tensors would
    // take whose gradients are zero: the short ones get one in its place, and zero is what comes
    // out.
    const bool has_no_root = v == 0.0f;
    const float root_of = sqrtf(has_no_root ? 1.0f : v), root = has_no_root ? v : root_of;
    const float divisor = root * root_correction + eps;
    const bool is_zero = m == 0.0f && divisor > 0.0f;
    const float quotient = (is_zero ? 1.0f : m) / divisor;
    return param * keep - step_size * (is_zero ? m : quotient);
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

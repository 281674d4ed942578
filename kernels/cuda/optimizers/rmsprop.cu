// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

template <bool centered, bool has_momentum>
struct RmsPropRule {
  static constexpr int kState = 1 + int(centered) + int(has_momentum);
  float alpha, eps, momentum;
  // Of the range.
  float lr = 0, weight_decay = 0;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    lr = counters.lr() * range.lr_scale;
    weight_decay = range.weight_decay;
  }

  __device__ float update(float param, float grad, float* state) const {
    const float g = grad + weight_decay * param;
    const float v = alpha * state[0] + (1.0f - alpha) * (g * g);
    state[0] = v;
    float variance = v;
    if constexpr (centered) {
      const float a = alpha * state[1] + (1.0f - alpha) * g;
      state[1] = a;
      variance = v - a * a;
      if (variance < 0.0f) variance = 0.0f;
    }
    float direction = g / (sqrtf(variance) + eps);
    if constexpr (has_momentum) {
      direction = momentum * state[kState - 1] + direction;
      state[kState - 1] = direction;
    }
    return param - lr * direction;
  }
};

template <bool centered, bool has_momentum>
void launch_rule(const Device& device,
                 const RmsProp& rmsprop,
                 const OptimizerUpdate& update,
                 std::span<const FlatRange> ranges) {
  launch_update("rmsprop_update",
                device,
                RmsPropRule<centered, has_momentum>{rmsprop.alpha, rmsprop.eps, rmsprop.momentum},
                update,
                ranges);
}

}  // namespace

void optimizer_update(const Device& device,
                      const RmsProp& rmsprop,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  const auto run =
      rmsprop.centered
          ? (rmsprop.momentum > 0 ? launch_rule<true, true> : launch_rule<true, false>)
          : (rmsprop.momentum > 0 ? launch_rule<false, true> : launch_rule<false, false>);
  run(device, rmsprop, update, ranges);
}

}  // namespace lockstep::cuda

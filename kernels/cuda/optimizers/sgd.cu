// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

template <bool has_momentum>
struct SgdRule {
  static constexpr int kState = has_momentum ? 1 : 0;
  float momentum;
  bool nesterov;
  // Of the range.
  float lr = 0, weight_decay = 0;
  bool first = false;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    lr = counters.lr() * range.lr_scale;
    weight_decay = range.weight_decay;
    first = counters.step() == 0;
  }

  __device__ float update(float param, float grad, float* state) const {
    const float g = grad + weight_decay * param;
    float direction = g;
    if constexpr (has_momentum) {
      const float m = first ? g : momentum * state[0] + g;
      state[0] = m;
      direction = nesterov ? g + momentum * m : m;
    }
    return param - lr * direction;
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const Sgd& sgd,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  if (sgd.momentum == 0.0f)
    launch_update("sgd_update", device, SgdRule<false>{0.0f, false}, update, ranges);
  else
    launch_update("sgd_update", device, SgdRule<true>{sgd.momentum, sgd.nesterov}, update, ranges);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/update_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct MuonDirection {
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

struct MuonNormalize {
  static constexpr int kState = 0;
  // Of the range.
  float inverse = 1;

  __device__ void enter(const FlatRange&, const LaunchCounters&, const TensorFacts& tensor) {
    inverse = float(1.0 / (tensor.direction_norm + Muon::kNormEps));
  }

  __device__ float direction(float /*param*/, float direction, float* /*state*/) const {
    return direction * inverse;
  }
};

struct MuonMatrixRule {
  static constexpr int kState = 0;
  // Of the range.
  float keep = 0, step_size = 0;

  __device__ void enter(const FlatRange& range,
                        const LaunchCounters& counters,
                        const TensorFacts& /*tensor*/) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    keep = float(1.0 - lr * double(range.weight_decay));
    step_size = float(lr);
  }

  __device__ float update(float param, float direction, float* /*state*/) const {
    return param * keep - step_size * direction;
  }
};

struct MuonOtherRule {
  static constexpr int kState = 2;
  float beta1, beta2, eps;
  // Of the range.
  float keep = 0, step_size = 0, root_correction = 0;

  __device__ void enter(const FlatRange& range, const LaunchCounters& counters) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    keep = float(1.0 - lr * double(range.weight_decay));
    step_size = float(lr / counters.scalar(Muon::kFirstCorrection));
    root_correction = float(counters.scalar(Muon::kRootCorrection));
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
                      const Muon& muon,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  if (update.phase == UpdatePhase::tensor_direction)
    launch_update("muon_direction", device, MuonDirection{muon.momentum}, update, ranges);
  else if (update.phase == UpdatePhase::normalize)
    launch_update("muon_normalize", device, MuonNormalize{}, update, ranges);
  else if (update.phase == UpdatePhase::tensor_update)
    launch_update("muon_update", device, MuonMatrixRule{}, update, ranges);
  else
    launch_update(
        "muon_others", device, MuonOtherRule{muon.beta1, muon.beta2, muon.eps}, update, ranges);
}

}  // namespace lockstep::cuda

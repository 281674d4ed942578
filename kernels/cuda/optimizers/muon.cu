// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/matrix_rules.cuh"

namespace lockstep::cuda {
namespace {

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

}  // namespace

void optimizer_update(const Device& device,
                      const Muon& muon,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  if (update.phase == UpdatePhase::tensor_direction)
    launch_update("muon_direction", device, NesterovDirection{muon.momentum}, update, ranges);
  else if (update.phase == UpdatePhase::normalize)
    launch_update("muon_normalize", device, NormalizedDirection{Muon::kNormEps}, update, ranges);
  else if (update.phase == UpdatePhase::tensor_update)
    launch_update("muon_update", device, MuonMatrixRule{}, update, ranges);
  else
    launch_update("muon_others", device, other_rule(muon), update, ranges);
}

}  // namespace lockstep::cuda

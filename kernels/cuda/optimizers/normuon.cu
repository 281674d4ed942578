// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizers/matrix_rules.cuh"
#include "kernels/cuda/optimizers/row_kernel.cuh"

namespace lockstep::cuda {
namespace {

struct NorMuonRowRule {
  float beta2, eps;
  // Of the row.
  float added = 0;

  __device__ void enter(const RowFacts& row) {
    added = (1.0f - beta2) * float(row.squares / row.elems);
  }

  __device__ float direction(float direction, float& state) const {
    const float v = beta2 * state + added;
    state = v;
    return direction / (sqrtf(v) + eps);
  }
};

struct NorMuonMatrixRule {
  static constexpr int kState = 0;
  // Of the range.
  float keep = 0, step_size = 0;

  __device__ void enter(const FlatRange& range,
                        const LaunchCounters& counters,
                        const TensorFacts& tensor) {
    const double lr = double(counters.lr()) * double(range.lr_scale);
    keep = float(1.0 - lr * double(range.weight_decay));
    step_size = float(lr * NorMuon::kUpdateScale * sqrt(tensor.elems) /
                      (tensor.direction_norm + NorMuon::kNormEps));
  }

  __device__ float update(float param, float direction, float* /*state*/) const {
    return param * keep - step_size * direction;
  }
};

}  // namespace

void optimizer_update(const Device& device,
                      const NorMuon& normuon,
                      const OptimizerUpdate& update,
                      std::span<const FlatRange> ranges) {
  if (update.phase == UpdatePhase::tensor_direction)
    launch_update("normuon_direction", device, NesterovDirection{normuon.momentum}, update, ranges);
  else if (update.phase == UpdatePhase::normalize)
    launch_update(
        "normuon_normalize", device, NormalizedDirection{NorMuon::kNormEps}, update, ranges);
  else if (update.phase == UpdatePhase::normalize_rows)
    launch_rows("normuon_rows", device, NorMuonRowRule{normuon.beta2, normuon.eps}, update, 1);
  else if (update.phase == UpdatePhase::tensor_update)
    launch_update("normuon_update", device, NorMuonMatrixRule{}, update, ranges);
  else
    launch_update("normuon_others", device, other_rule(normuon), update, ranges);
}

}  // namespace lockstep::cuda

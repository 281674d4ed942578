// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/regression_losses.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses/losses.h"

namespace lockstep::cpu {
namespace {

using RegressionLoop = decltype(&baseline::squared_error);

/// What the losses differ in.
struct RegressionLossParts {
  RegressionLoop loop;
  double slope_factor = 1;  ///< dx = slope_factor * w / D * what the loop says
  float delta = 0;
  bool with_gradient = true;
};

class RegressionLossKernel final : public BoundKernel {
 public:
  RegressionLossKernel(const RegressionLossParts& parts, const KernelSpec& spec)
      : parts_(parts),
        samples_(spec.inputs[0].shape[0]),
        features_(spec.inputs[0].shape[1]),
        adds_loss_(spec.output_accumulates[0]) {}

  void run(const RunState& state) override {
    const double weight = features_ == 0 ? 0.0 : double(input(2)[0]) / double(features_);
    const double sum = parts_.loop({.x = input(0),
                                    .target = input(1),
                                    .dx = parts_.with_gradient ? output(1) : nullptr,
                                    .samples = samples_,
                                    .features = features_,
                                    .dx_factor = float(parts_.slope_factor * weight),
                                    .delta = parts_.delta});
    const float loss = float(weight * sum);
    float& loss_sum = *output(0);
    loss_sum = adds_loss_ && state.accumulate ? loss_sum + loss : loss;
  }

 private:
  RegressionLossParts parts_;
  std::int64_t samples_, features_;
  bool adds_loss_;
};

}  // namespace

std::unique_ptr<Kernel> make_mean_squared_error_kernel(const ops::MeanSquaredError& op,
                                                       const KernelSpec& spec) {
  const RegressionLossParts parts{.loop = LOCKSTEP_CHOOSE(squared_error),
                                  .slope_factor = 2,
                                  .with_gradient = op.with_gradient()};
  return std::make_unique<RegressionLossKernel>(parts, spec);
}

std::unique_ptr<Kernel> make_l1_loss_kernel(const ops::L1Loss& op, const KernelSpec& spec) {
  const RegressionLossParts parts{.loop = LOCKSTEP_CHOOSE(absolute_error),
                                  .with_gradient = op.with_gradient()};
  return std::make_unique<RegressionLossKernel>(parts, spec);
}

std::unique_ptr<Kernel> make_huber_loss_kernel(const ops::HuberLoss& op, const KernelSpec& spec) {
  const RegressionLossParts parts{.loop = LOCKSTEP_CHOOSE(huber_error),
                                  .delta = op.delta(),
                                  .with_gradient = op.with_gradient()};
  return std::make_unique<RegressionLossKernel>(parts, spec);
}

}  // namespace lockstep::cpu

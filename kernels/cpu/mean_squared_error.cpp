// SPDX-License-Identifier: Apache-2.0
#include "core/ops/mean_squared_error.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses.h"

namespace lockstep::cpu {
namespace {

class MeanSquaredErrorKernel final : public BoundKernel {
 public:
  MeanSquaredErrorKernel(const ops::MeanSquaredError& op, const KernelSpec& spec)
      : samples_(spec.inputs[0].shape[0]),
        features_(spec.inputs[0].shape[1]),
        with_gradient_(op.with_gradient()),
        adds_loss_(spec.output_accumulates[0]) {}

  void run(const RunState& state) override {
    const double weight = features_ == 0 ? 0.0 : double(input(2)[0]) / double(features_);
    const double sum = squared_error_({.x = input(0),
                                       .target = input(1),
                                       .dx = with_gradient_ ? output(1) : nullptr,
                                       .samples = samples_,
                                       .features = features_,
                                       .dx_factor = float(2.0 * weight)});
    const float loss = float(weight * sum);
    float& loss_sum = *output(0);
    loss_sum = adds_loss_ && state.accumulate ? loss_sum + loss : loss;
  }

 private:
  decltype(&avx2::squared_error) squared_error_ = LOCKSTEP_CHOOSE(squared_error);
  std::int64_t samples_, features_;
  bool with_gradient_, adds_loss_;
};

}  // namespace

std::unique_ptr<Kernel> make_mean_squared_error_kernel(const ops::MeanSquaredError& op,
                                                       const KernelSpec& spec) {
  return std::make_unique<MeanSquaredErrorKernel>(op, spec);
}

}  // namespace lockstep::cpu

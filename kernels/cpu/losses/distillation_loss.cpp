// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/distillation_loss.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses/losses.h"

namespace lockstep::cpu {
namespace {

class DistillationLossKernel final : public BoundKernel {
 public:
  DistillationLossKernel(const ops::DistillationLoss& op, const KernelSpec& spec)
      : distilled_(op.distilled()),
        rows_(spec.inputs[0].shape[0]),
        classes_(spec.inputs[0].shape[1]),
        with_gradient_(op.with_gradient()),
        adds_loss_(spec.output_accumulates[0]) {}

  void run(const RunState& state) override {
    const double weight = double(input(2)[0]) * double(distilled_.alpha);
    const double temperature = distilled_.temperature, base = input(3)[0];
    const double sum = loop_({.x = input(0),
                              .teacher = input(1),
                              .dx = with_gradient_ ? output(1) : nullptr,
                              .rows = rows_,
                              .classes = classes_,
                              .inverse_temperature = 1 / distilled_.temperature,
                              .dx_factor = float(weight * temperature),
                              .hard = distilled_.hard});
    const auto loss = float(base + weight * temperature * temperature * sum);
    float& loss_sum = *output(0);
    loss_sum = adds_loss_ && state.accumulate ? loss_sum + loss : loss;
  }

 private:
  decltype(&baseline::distillation) loop_ = LOCKSTEP_CHOOSE(distillation);
  ops::Distilled distilled_;
  std::int64_t rows_, classes_;
  bool with_gradient_, adds_loss_;
};

}  // namespace

std::unique_ptr<Kernel> make_distillation_loss_kernel(const ops::DistillationLoss& op,
                                                      const KernelSpec& spec) {
  return std::make_unique<DistillationLossKernel>(op, spec);
}

}  // namespace lockstep::cpu

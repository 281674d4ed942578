// SPDX-License-Identifier: Apache-2.0
#include "core/ops/softmax_cross_entropy.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses.h"

namespace lockstep::cpu {
namespace {

class SoftmaxCrossEntropyKernel final : public BoundKernel {
 public:
  SoftmaxCrossEntropyKernel(const ops::SoftmaxCrossEntropy& op, const KernelSpec& spec)
      : samples_(spec.inputs[0].shape[0]),
        classes_(spec.inputs[0].shape[1]),
        label_smoothing_(op.label_smoothing()),
        with_gradient_(op.with_gradient()),
        adds_loss_(spec.output_accumulates[0]),
        adds_correct_(spec.output_accumulates[1]) {}

  void run(const RunState& state) override {
    const float weight = input(2)[0];
    const LossSums sums = cross_entropy_({.logits = input(0),
                                          .labels = input<std::int32_t>(1),
                                          .dlogits = with_gradient_ ? output(2) : nullptr,
                                          .samples = samples_,
                                          .classes = classes_,
                                          .label_smoothing = label_smoothing_,
                                          .sample_weight = weight});
    const float loss = float(sums.loss * double(weight));
    const float correct = float(double(sums.correct) * double(weight));
    float& loss_sum = *output(0);
    float& correct_sum = *output(1);
    loss_sum = adds_loss_ && state.accumulate ? loss_sum + loss : loss;
    correct_sum = adds_correct_ && state.accumulate ? correct_sum + correct : correct;
  }

 private:
  decltype(&avx2::cross_entropy) cross_entropy_ = LOCKSTEP_CHOOSE(cross_entropy);
  std::int64_t samples_, classes_;
  float label_smoothing_;
  bool with_gradient_, adds_loss_, adds_correct_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_cross_entropy_kernel(const ops::SoftmaxCrossEntropy& op,
                                                          const KernelSpec& spec) {
  return std::make_unique<SoftmaxCrossEntropyKernel>(op, spec);
}

}  // namespace lockstep::cpu

// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/softmax_cross_entropy.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses/losses.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class SoftmaxCrossEntropyKernel final : public BoundKernel {
 public:
  SoftmaxCrossEntropyKernel(const ops::SoftmaxCrossEntropy& op, const KernelSpec& spec)
      : rows_(spec.inputs[1].elems()),
        classes_(op.classes(spec.inputs[0])),
        pitch_(spec.inputs[0].shape[-1]),
        tokens_(spec.inputs[0].shape.rank() == 3 ? spec.inputs[0].shape[1] : 1),
        label_smoothing_(op.label_smoothing()),
        ignored_(op.ignore_index()),
        gradient_output_(op.with_gradient() ? op.gradient_output() : -1),
        accumulates_(spec.output_accumulates) {}

  void run(const RunState& state) override {
    const float weight = tokens_ == 0 ? 0.0f : input(2)[0] / float(tokens_);
    const LossSums sums = cross_entropy_(
        {.logits = input<T>(0),
         .labels = input<std::int32_t>(1),
         .dlogits = gradient_output_ < 0 ? nullptr : output<T>(std::size_t(gradient_output_)),
         .rows = rows_,
         .classes = classes_,
         .pitch = pitch_,
         .label_smoothing = label_smoothing_,
         .row_weight = weight,
         .ignored = ignored_.value_or(kNoLabel)});
    add(0, sums.loss * double(weight), state);
    add(1, double(sums.correct) * double(weight), state);
    if (ignored_) add(2, double(sums.counted) * double(weight), state);
  }

 private:
  void add(std::size_t i, double value, const RunState& state) const {
    float& sum = *output(i);
    sum = accumulates_[i] && state.accumulate ? sum + float(value) : float(value);
  }

  decltype(&baseline::cross_entropy<T>) cross_entropy_ = LOCKSTEP_CHOOSE(cross_entropy<T>);
  std::int64_t rows_, classes_, pitch_, tokens_;
  float label_smoothing_;
  std::optional<std::int32_t> ignored_;
  int gradient_output_;
  std::vector<bool> accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_cross_entropy_kernel(const ops::SoftmaxCrossEntropy& op,
                                                          const KernelSpec& spec) {
  return make_stored<SoftmaxCrossEntropyKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu

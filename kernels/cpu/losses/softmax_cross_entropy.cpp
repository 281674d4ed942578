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
      : rows_(op.rows(spec.inputs[0])),
        classes_(op.classes(spec.inputs[0])),
        pitch_(spec.inputs[0].shape[-1]),
        tokens_(spec.inputs[0].shape.rank() == 3 ? spec.inputs[0].shape[1] : 1),
        soft_(op.is_soft(spec.inputs[1])),
        class_weights_(op.class_weights()),
        label_smoothing_(op.label_smoothing()),
        ignored_(op.ignore_index()),
        gradient_output_(op.with_gradient() ? op.gradient_output() : -1),
        accumulates_(spec.output_accumulates) {}

  std::size_t workspace_bytes() const override {
    return class_weights_.empty() ? 0 : std::size_t(rows_) * 4 * sizeof(float);
  }

  void run(const RunState& state) override {
    const bool soft = soft_ || !class_weights_.empty();
    if (!class_weights_.empty()) weigh_labels();
    const float weight = tokens_ == 0 ? 0.0f : input(2)[0] / float(tokens_);
    const LossSums sums = cross_entropy_(
        {.logits = input<T>(0),
         .labels = soft ? nullptr : input<std::int32_t>(1),
         .soft_labels = !class_weights_.empty() ? workspace<float>()
                        : soft_                 ? input(1)
                                                : nullptr,
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
  /// Soft labels in the workspace, each class's weight times the own one.
  void weigh_labels() const {
    float* pair = workspace<float>();
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t half = 0; half < 2; ++half, pair += 2) {
        const std::int32_t label =
            soft_ ? std::int32_t(input(1)[4 * n + 2 * half]) : input<std::int32_t>(1)[n];
        const float own = soft_ ? input(1)[4 * n + 2 * half + 1] : half == 0 ? 1.0f : 0.0f;
        const bool counts = soft_ || label != ignored_.value_or(kNoLabel);
        pair[0] = counts ? float(label) : -1.0f;
        pair[1] = counts ? own * class_weights_[std::size_t(label)] : 0.0f;
      }
  }

  void add(std::size_t i, double value, const RunState& state) const {
    float& sum = *output(i);
    sum = accumulates_[i] && state.accumulate ? sum + float(value) : float(value);
  }

  decltype(&baseline::cross_entropy<T>) cross_entropy_ = LOCKSTEP_CHOOSE(cross_entropy<T>);
  std::int64_t rows_, classes_, pitch_, tokens_;
  bool soft_;
  std::vector<float> class_weights_;
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

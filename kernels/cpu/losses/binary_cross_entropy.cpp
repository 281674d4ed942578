// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/binary_cross_entropy.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/losses/losses.h"

namespace lockstep::cpu {
namespace {

class BinaryCrossEntropyKernel final : public BoundKernel {
 public:
  BinaryCrossEntropyKernel(const ops::BinaryCrossEntropy& op, const KernelSpec& spec)
      : samples_(spec.inputs[0].shape[0]),
        labels_(spec.inputs[0].shape[1]),
        with_gradient_(op.with_gradient()),
        accumulates_(spec.output_accumulates) {}

  void run(const RunState& state) override {
    const double weight = labels_ == 0 ? 0.0 : double(input(2)[0]) / double(labels_);
    const LossSums sums = loop_({.x = input(0),
                                 .target = input(1),
                                 .dx = with_gradient_ ? output(2) : nullptr,
                                 .samples = samples_,
                                 .features = labels_,
                                 .dx_factor = float(weight)});
    add(0, weight * sums.loss, state);
    add(1, weight * double(sums.correct), state);
  }

 private:
  void add(std::size_t i, double value, const RunState& state) const {
    float& sum = *output(i);
    sum = accumulates_[i] && state.accumulate ? sum + float(value) : float(value);
  }

  decltype(&baseline::binary_cross_entropy) loop_ = LOCKSTEP_CHOOSE(binary_cross_entropy);
  std::int64_t samples_, labels_;
  bool with_gradient_;
  std::vector<bool> accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_binary_cross_entropy_kernel(const ops::BinaryCrossEntropy& op,
                                                         const KernelSpec& spec) {
  return std::make_unique<BinaryCrossEntropyKernel>(op, spec);
}

}  // namespace lockstep::cpu

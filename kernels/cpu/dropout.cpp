// SPDX-License-Identifier: Apache-2.0
#include "core/ops/dropout.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/dropout_stream.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class DropoutKernel final : public BoundKernel {
 public:
  DropoutKernel(const ops::Dropout& op, const KernelSpec& spec)
      : dropout_(op.rate(), spec.path), samples_(spec.inputs[0].shape[0]) {
    sample_elems_ = samples_ == 0 ? 0 : spec.inputs[0].elems() / samples_;
  }

  void run(const RunState& state) override {
    loop_(output<T>(0), input<T>(0), samples_, sample_elems_, dropout_.at(state));
  }

 private:
  decltype(&baseline::dropout<T>) loop_ = LOCKSTEP_CHOOSE(dropout<T>);
  KeyedDropout dropout_;
  std::int64_t samples_;
  std::int64_t sample_elems_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout_kernel(const ops::Dropout& op, const KernelSpec& spec) {
  return make_stored<DropoutKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu

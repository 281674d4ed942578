// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/embedding/class_token.h"

#include "core/ops/embedding/class_token.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class ClassTokenKernel final : public BoundKernel {
 public:
  explicit ClassTokenKernel(const KernelSpec& spec) : shape_(spec.outputs[0].shape) {}
  void run(const RunState&) override {
    add_(output<T>(0), input<T>(0), input(1), input(2), shape_[0], shape_[1] - 1, shape_[2]);
  }

 private:
  decltype(&baseline::class_token<T>) add_ = LOCKSTEP_CHOOSE(class_token<T>);
  Shape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_class_token_kernel(const ops::ClassToken&, const KernelSpec& spec) {
  return make_stored<ClassTokenKernel>(spec.outputs[0].dtype, spec);
}

}  // namespace lockstep::cpu

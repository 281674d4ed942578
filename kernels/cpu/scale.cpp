// SPDX-License-Identifier: Apache-2.0
#include "core/ops/scale.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class ScaleKernel final : public BoundKernel {
 public:
  ScaleKernel(float factor, std::int64_t elems) : factor_(factor), elems_(elems) {}
  void run(const RunState&) override { scale_(output<T>(0), input<T>(0), factor_, elems_); }

 private:
  decltype(&baseline::scale<T>) scale_ = LOCKSTEP_CHOOSE(scale<T>);
  float factor_;
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_scale_kernel(const ops::Scale& op, const KernelSpec& spec) {
  return make_stored<ScaleKernel>(spec.inputs[0].dtype, op.factor(), spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

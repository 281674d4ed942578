// SPDX-License-Identifier: Apache-2.0
#include "core/ops/relu.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class ReluKernel final : public BoundKernel {
 public:
  explicit ReluKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { relu_(output<T>(0), input<T>(0), elems_); }

 private:
  decltype(&baseline::relu<T>) relu_ = LOCKSTEP_CHOOSE(relu<T>);
  std::int64_t elems_;
};

template <typename T>
class ReluBwdKernel final : public BoundKernel {
 public:
  explicit ReluBwdKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { relu_bwd_(output<T>(0), input<T>(0), input<T>(1), elems_); }

 private:
  decltype(&baseline::relu_bwd<T>) relu_bwd_ = LOCKSTEP_CHOOSE(relu_bwd<T>);
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_relu_kernel(const ops::Relu&, const KernelSpec& spec) {
  return make_stored<ReluKernel>(spec.inputs[0].dtype, spec.inputs[0].elems());
}

std::unique_ptr<Kernel> make_relu_bwd_kernel(const ops::ReluBwd&, const KernelSpec& spec) {
  return make_stored<ReluBwdKernel>(spec.inputs[0].dtype, spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

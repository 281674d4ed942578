// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/swiglu.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class SwigluKernel final : public BoundKernel {
 public:
  explicit SwigluKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { swiglu_(output<T>(0), input<T>(0), input<T>(1), elems_); }

 private:
  decltype(&baseline::swiglu<T>) swiglu_ = LOCKSTEP_CHOOSE(swiglu<T>);
  std::int64_t elems_;
};

template <typename T>
class SwigluBwdKernel final : public BoundKernel {
 public:
  explicit SwigluBwdKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override {
    swiglu_bwd_(output<T>(0), output<T>(1), input<T>(0), input<T>(1), input<T>(2), elems_);
  }

 private:
  decltype(&baseline::swiglu_bwd<T>) swiglu_bwd_ = LOCKSTEP_CHOOSE(swiglu_bwd<T>);
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu_kernel(const ops::Swiglu&, const KernelSpec& spec) {
  return make_stored<SwigluKernel>(spec.inputs[0].dtype, spec.inputs[0].elems());
}

std::unique_ptr<Kernel> make_swiglu_bwd_kernel(const ops::SwigluBwd&, const KernelSpec& spec) {
  return make_stored<SwigluBwdKernel>(spec.inputs[0].dtype, spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/gelu.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class GeluKernel final : public BoundKernel {
 public:
  GeluKernel(ops::GeluKind kind, std::int64_t elems)
      : gelu_(kind == ops::GeluKind::erf ? LOCKSTEP_CHOOSE(gelu_erf<T>)
                                         : LOCKSTEP_CHOOSE(gelu_tanh<T>)),
        elems_(elems) {}
  void run(const RunState&) override { gelu_(output<T>(0), input<T>(0), elems_); }

 private:
  decltype(&baseline::gelu_erf<T>) gelu_;
  std::int64_t elems_;
};

template <typename T>
class GeluBwdKernel final : public BoundKernel {
 public:
  GeluBwdKernel(ops::GeluKind kind, std::int64_t elems)
      : gelu_bwd_(kind == ops::GeluKind::erf ? LOCKSTEP_CHOOSE(gelu_erf_bwd<T>)
                                             : LOCKSTEP_CHOOSE(gelu_tanh_bwd<T>)),
        elems_(elems) {}
  void run(const RunState&) override { gelu_bwd_(output<T>(0), input<T>(0), input<T>(1), elems_); }

 private:
  decltype(&baseline::gelu_erf_bwd<T>) gelu_bwd_;
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu_kernel(const ops::Gelu& op, const KernelSpec& spec) {
  return make_stored<GeluKernel>(spec.inputs[0].dtype, op.gelu(), spec.inputs[0].elems());
}

std::unique_ptr<Kernel> make_gelu_bwd_kernel(const ops::GeluBwd& op, const KernelSpec& spec) {
  return make_stored<GeluBwdKernel>(spec.inputs[0].dtype, op.gelu(), spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

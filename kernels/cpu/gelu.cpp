// SPDX-License-Identifier: Apache-2.0
#include "core/ops/gelu.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/float_only.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class GeluKernel final : public BoundKernel {
 public:
  GeluKernel(ops::GeluKind kind, std::int64_t elems)
      : gelu_(kind == ops::GeluKind::erf ? LOCKSTEP_CHOOSE(gelu_erf) : LOCKSTEP_CHOOSE(gelu_tanh)),
        elems_(elems) {}
  void run(const RunState&) override { gelu_(output(0), input(0), elems_); }

 private:
  decltype(&avx2::gelu_erf) gelu_;
  std::int64_t elems_;
};

class GeluBwdKernel final : public BoundKernel {
 public:
  GeluBwdKernel(ops::GeluKind kind, std::int64_t elems)
      : gelu_bwd_(kind == ops::GeluKind::erf ? LOCKSTEP_CHOOSE(gelu_erf_bwd)
                                             : LOCKSTEP_CHOOSE(gelu_tanh_bwd)),
        elems_(elems) {}
  void run(const RunState&) override { gelu_bwd_(output(0), input(0), input(1), elems_); }

 private:
  decltype(&avx2::gelu_erf_bwd) gelu_bwd_;
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu_kernel(const ops::Gelu& op, const KernelSpec& spec) {
  expect_f32(spec);
  return std::make_unique<GeluKernel>(op.gelu(), spec.inputs[0].elems());
}

std::unique_ptr<Kernel> make_gelu_bwd_kernel(const ops::GeluBwd& op, const KernelSpec& spec) {
  expect_f32(spec);
  return std::make_unique<GeluBwdKernel>(op.gelu(), spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

// SPDX-License-Identifier: Apache-2.0
#include "core/ops/cast.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class CastKernel final : public BoundKernel {
 public:
  CastKernel(DType to, std::int64_t elems) : to_(to), elems_(elems) {}
  void run(const RunState&) override {
    if (to_ == DType::bf16)
      narrow_(output<std::uint16_t>(0), input(0), elems_);
    else
      widen_(output(0), input<std::uint16_t>(0), elems_);
  }

 private:
  decltype(&avx2::cast_to_bf16) narrow_ = LOCKSTEP_CHOOSE(cast_to_bf16);
  decltype(&avx2::cast_to_f32) widen_ = LOCKSTEP_CHOOSE(cast_to_f32);
  DType to_;
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_cast_kernel(const ops::Cast& op, const KernelSpec& spec) {
  return std::make_unique<CastKernel>(op.output(), spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

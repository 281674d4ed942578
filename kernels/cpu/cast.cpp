// SPDX-License-Identifier: Apache-2.0
#include "core/ops/cast.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class RoundToBf16Kernel final : public BoundKernel {
 public:
  explicit RoundToBf16Kernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { round_to_bf16_(output<Bf16>(0), input(0), elems_); }

 private:
  decltype(&baseline::round_to_bf16) round_to_bf16_ = LOCKSTEP_CHOOSE(round_to_bf16);
  std::int64_t elems_;
};

class WidenToF32Kernel final : public BoundKernel {
 public:
  explicit WidenToF32Kernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { widen_to_f32_(output(0), input<Bf16>(0), elems_); }

 private:
  decltype(&baseline::widen_to_f32) widen_to_f32_ = LOCKSTEP_CHOOSE(widen_to_f32);
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_cast_kernel(const ops::Cast& op, const KernelSpec& spec) {
  const std::int64_t elems = spec.inputs[0].elems();
  if (op.output() == DType::bf16) return std::make_unique<RoundToBf16Kernel>(elems);
  return std::make_unique<WidenToF32Kernel>(elems);
}

}  // namespace lockstep::cpu

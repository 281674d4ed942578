// SPDX-License-Identifier: Apache-2.0
#include "core/ops/add.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/flat.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class AddKernel final : public BoundKernel {
 public:
  AddKernel(std::int64_t elems, bool accumulates) : elems_(elems), accumulates_(accumulates) {}
  void run(const RunState& state) override {
    const auto loop = accumulates_ && state.accumulate ? add_onto_ : add_;
    loop(output(0), input(0), input(1), elems_);
  }

 private:
  decltype(&avx2::add) add_ = LOCKSTEP_CHOOSE(add);
  decltype(&avx2::add_onto) add_onto_ = LOCKSTEP_CHOOSE(add_onto);
  std::int64_t elems_;
  bool accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_add_kernel(const ops::Add&, const KernelSpec& spec) {
  return std::make_unique<AddKernel>(spec.inputs[0].elems(), spec.output_accumulates[0]);
}

}  // namespace lockstep::cpu

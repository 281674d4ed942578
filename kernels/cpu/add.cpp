// SPDX-License-Identifier: Apache-2.0
#include "core/ops/add.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class AddKernel final : public BoundKernel {
 public:
  explicit AddKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { add_(output<T>(0), input<T>(0), input<T>(1), elems_); }

 private:
  decltype(&baseline::add<T>) add_ = LOCKSTEP_CHOOSE(add<T>);
  std::int64_t elems_;
};

/// The output is a gradient in the flat space.
class AddGradientsKernel final : public BoundKernel {
 public:
  explicit AddGradientsKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState& state) override {
    const auto loop = state.accumulate ? add_onto_ : add_;
    loop(output(0), input(0), input(1), elems_);
  }

 private:
  decltype(&baseline::add<float>) add_ = LOCKSTEP_CHOOSE(add<float>);
  decltype(&baseline::add_onto) add_onto_ = LOCKSTEP_CHOOSE(add_onto);
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_add_kernel(const ops::Add&, const KernelSpec& spec) {
  const std::int64_t elems = spec.inputs[0].elems();
  if (spec.output_accumulates[0]) return std::make_unique<AddGradientsKernel>(elems);
  return make_stored<AddKernel>(spec.inputs[0].dtype, elems);
}

}  // namespace lockstep::cpu

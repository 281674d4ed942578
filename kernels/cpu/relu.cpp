// SPDX-License-Identifier: Apache-2.0
#include "core/ops/relu.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

class ReluKernel final : public BoundKernel {
 public:
  explicit ReluKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { relu_(output(0), input(0), elems_); }

 private:
  decltype(&avx2::relu) relu_ = LOCKSTEP_CHOOSE(relu);
  std::int64_t elems_;
};

class ReluBwdKernel final : public BoundKernel {
 public:
  explicit ReluBwdKernel(std::int64_t elems) : elems_(elems) {}
  void run(const RunState&) override { relu_bwd_(output(0), input(0), input(1), elems_); }

 private:
  decltype(&avx2::relu_bwd) relu_bwd_ = LOCKSTEP_CHOOSE(relu_bwd);
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_relu_kernel(const ops::Relu&, const KernelSpec& spec) {
  return std::make_unique<ReluKernel>(spec.inputs[0].elems());
}

std::unique_ptr<Kernel> make_relu_bwd_kernel(const ops::ReluBwd&, const KernelSpec& spec) {
  return std::make_unique<ReluBwdKernel>(spec.inputs[0].elems());
}

}  // namespace lockstep::cpu

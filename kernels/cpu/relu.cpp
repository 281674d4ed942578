// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/relu.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class ReluKernel final : public BoundKernel {
 public:
  ReluKernel(std::int64_t elems, float limit) : elems_(elems), limit_(limit) {}
  void run(const RunState&) override {
    if (limit_ == ops::kNoLimit)
      relu_(output<T>(0), input<T>(0), elems_);
    else
      limited_(output<T>(0), input<T>(0), elems_, limit_);
  }

 private:
  decltype(&baseline::relu_limited<T>) limited_ = LOCKSTEP_CHOOSE(relu_limited<T>);
  decltype(&baseline::relu<T>) relu_ = LOCKSTEP_CHOOSE(relu<T>);
  std::int64_t elems_;
  float limit_;
};

template <typename T>
class ReluBwdKernel final : public BoundKernel {
 public:
  ReluBwdKernel(std::int64_t elems, float limit)
      : elems_(elems), largest_(ops::largest_open(limit)) {}
  void run(const RunState&) override {
    relu_bwd_(output<T>(0), input<T>(0), input<T>(1), elems_, largest_);
  }

 private:
  decltype(&baseline::relu_bwd<T>) relu_bwd_ = LOCKSTEP_CHOOSE(relu_bwd<T>);
  std::int64_t elems_;
  float largest_;
};

}  // namespace

std::unique_ptr<Kernel> make_relu_kernel(const ops::Relu& op, const KernelSpec& spec) {
  return make_stored<ReluKernel>(spec.inputs[0].dtype, spec.inputs[0].elems(), op.limit());
}

std::unique_ptr<Kernel> make_relu_bwd_kernel(const ops::ReluBwd& op, const KernelSpec& spec) {
  return make_stored<ReluBwdKernel>(spec.inputs[0].dtype, spec.inputs[0].elems(), op.limit());
}

}  // namespace lockstep::cpu

// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/relu.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/step/block_step.cuh"
#include "kernels/cuda/step/fused_small_kernels.h"

// map() of elementwise.cuh; few fp32 elements are a step of a block program, with the same bits.
// Bytes: each tensor once. Bound by memory.
namespace lockstep::cuda {
namespace {

template <typename T>
class ReluKernel final : public BoundKernel {
 public:
  ReluKernel(std::int64_t elems, float limit, const Device& device)
      : BoundKernel(device), elems_(elems), limit_(limit) {}
  void run(const RunState&) override {
    if (limit_ == ops::kNoLimit)
      map("relu", Relu{}, output<T>(0), elems_, stream(), input<T>(0));
    else
      map("relu", LimitedRelu{limit_}, output<T>(0), elems_, stream(), input<T>(0));
  }

 private:
  std::int64_t elems_;
  float limit_;
};

template <typename T>
class ReluBwdKernel final : public BoundKernel {
 public:
  ReluBwdKernel(std::int64_t elems, float limit, const Device& device)
      : BoundKernel(device), elems_(elems), limit_(limit) {}
  void run(const RunState&) override {
    if (limit_ == ops::kNoLimit)
      map("relu_bwd", ReluGradient{}, output<T>(0), elems_, stream(), input<T>(0), input<T>(1));
    else
      map("relu_bwd",
          LimitedReluGradient{ops::largest_open(limit_)},
          output<T>(0),
          elems_,
          stream(),
          input<T>(0),
          input<T>(1));
  }

 private:
  std::int64_t elems_;
  float limit_;
};

class SmallReluKernel final : public SmallKernel {
 public:
  SmallReluKernel(bool backward, std::int64_t elems, const Device& device)
      : SmallKernel(device), backward_(backward), elems_(std::int32_t(elems)) {}
  BlockStep step() const override {
    BlockStep step;
    step.head.kind = backward_ ? BlockStep::Kind::relu_bwd : BlockStep::Kind::relu;
    step.elementwise.y = output(0);
    step.elementwise.a = input(0);
    step.elementwise.b = backward_ ? input(1) : nullptr;
    step.elementwise.elems = elems_;
    return step;
  }

 private:
  bool backward_;
  std::int32_t elems_;
};

bool is_small(const TensorType& type) {
  return type.dtype == DType::f32 && type.elems() > 0 && type.elems() <= kMaxSmallElems;
}

}  // namespace

std::unique_ptr<Kernel> make_relu_kernel(const ops::Relu& op,
                                         const KernelSpec& spec,
                                         const Device& device) {
  if (op.limit() == ops::kNoLimit && is_small(spec.inputs[0]))
    return std::make_unique<SmallReluKernel>(false, spec.inputs[0].elems(), device);
  return make_stored<ReluKernel>(spec.inputs[0].dtype, spec.inputs[0].elems(), op.limit(), device);
}

std::unique_ptr<Kernel> make_relu_bwd_kernel(const ops::ReluBwd& op,
                                             const KernelSpec& spec,
                                             const Device& device) {
  if (op.limit() == ops::kNoLimit && is_small(spec.inputs[0]))
    return std::make_unique<SmallReluKernel>(true, spec.inputs[0].elems(), device);
  return make_stored<ReluBwdKernel>(
      spec.inputs[0].dtype, spec.inputs[0].elems(), op.limit(), device);
}

}  // namespace lockstep::cuda

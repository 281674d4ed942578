// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/max_pool2d.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pooling/pool_shape.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class MaxPool2dKernel final : public BoundKernel {
 public:
  explicit MaxPool2dKernel(const PoolShape& shape) : shape_(shape) {}
  void run(const RunState&) override {
    max_pool_(output<T>(0), output<std::uint8_t>(1), input<T>(0), shape_);
  }

 private:
  decltype(&baseline::max_pool<T>) max_pool_ = LOCKSTEP_CHOOSE(max_pool<T>);
  PoolShape shape_;
};

template <typename T>
class MaxPool2dBwdKernel final : public BoundKernel {
 public:
  explicit MaxPool2dBwdKernel(const PoolShape& shape) : shape_(shape) {}
  void run(const RunState&) override {
    max_pool_bwd_(output<T>(0), input<T>(0), input<std::uint8_t>(1), shape_);
  }

 private:
  decltype(&baseline::max_pool_bwd<T>) max_pool_bwd_ = LOCKSTEP_CHOOSE(max_pool_bwd<T>);
  PoolShape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_pool2d_kernel(const ops::MaxPool2d& op, const KernelSpec& spec) {
  return make_stored<MaxPool2dKernel>(
      spec.inputs[0].dtype, pool_shape(op.attrs(), spec.inputs[0].shape, spec.outputs[0].shape));
}

std::unique_ptr<Kernel> make_max_pool2d_bwd_kernel(const ops::MaxPool2dBwd& op,
                                                   const KernelSpec& spec) {
  return make_stored<MaxPool2dBwdKernel>(
      spec.inputs[0].dtype, pool_shape(op.attrs(), spec.outputs[0].shape, spec.inputs[0].shape));
}

}  // namespace lockstep::cpu

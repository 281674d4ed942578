// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/avg_pool2d.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pooling/pool_shape.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class AvgPool2dKernel final : public BoundKernel {
 public:
  explicit AvgPool2dKernel(const PoolShape& shape) : shape_(shape) {}
  void run(const RunState&) override { avg_pool_(output<T>(0), input<T>(0), shape_); }

 private:
  decltype(&baseline::avg_pool<T>) avg_pool_ = LOCKSTEP_CHOOSE(avg_pool<T>);
  PoolShape shape_;
};

template <typename T>
class AvgPool2dBwdKernel final : public BoundKernel {
 public:
  explicit AvgPool2dBwdKernel(const PoolShape& shape) : shape_(shape) {}
  void run(const RunState&) override { avg_pool_bwd_(output<T>(0), input<T>(0), shape_); }

 private:
  decltype(&baseline::avg_pool_bwd<T>) avg_pool_bwd_ = LOCKSTEP_CHOOSE(avg_pool_bwd<T>);
  PoolShape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_avg_pool2d_kernel(const ops::AvgPool2d& op, const KernelSpec& spec) {
  return make_stored<AvgPool2dKernel>(
      spec.inputs[0].dtype, pool_shape(op.attrs(), spec.inputs[0].shape, spec.outputs[0].shape));
}

std::unique_ptr<Kernel> make_avg_pool2d_bwd_kernel(const ops::AvgPool2dBwd& op,
                                                   const KernelSpec& spec) {
  return make_stored<AvgPool2dBwdKernel>(
      spec.inputs[0].dtype, pool_shape(op.attrs(), spec.outputs[0].shape, spec.inputs[0].shape));
}

}  // namespace lockstep::cpu

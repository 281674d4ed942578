// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/gelu.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_list.h"

// map() of elementwise.cuh. Bytes: each tensor once. 25 to 60 instructions an element: bound by
// memory in fp32; in bf16, where a byte carries twice the elements, the approximations of
// arithmetic.cuh keep the arithmetic below the memory's time.
namespace lockstep::cuda {
namespace {

template <typename T>
class GeluKernel final : public BoundKernel {
 public:
  GeluKernel(ops::GeluKind kind, std::int64_t elems, const Device& device)
      : BoundKernel(device), kind_(kind), elems_(elems) {}
  void run(const RunState&) override {
    if (kind_ == ops::GeluKind::erf)
      map("gelu_erf", GeluErf<T>{}, output<T>(0), elems_, stream(), input<T>(0));
    else
      map("gelu_tanh", GeluTanh<T>{}, output<T>(0), elems_, stream(), input<T>(0));
  }

 private:
  ops::GeluKind kind_;
  std::int64_t elems_;
};

template <typename T>
class GeluBwdKernel final : public BoundKernel {
 public:
  GeluBwdKernel(ops::GeluKind kind, std::int64_t elems, const Device& device)
      : BoundKernel(device), kind_(kind), elems_(elems) {}
  void run(const RunState&) override {
    const T *dy = input<T>(0), *x = input<T>(1);
    if (kind_ == ops::GeluKind::erf)
      map("gelu_erf_bwd", GeluErfGradient<T>{}, output<T>(0), elems_, stream(), dy, x);
    else
      map("gelu_tanh_bwd", GeluTanhGradient<T>{}, output<T>(0), elems_, stream(), dy, x);
  }

 private:
  ops::GeluKind kind_;
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu_kernel(const ops::Gelu& op,
                                         const KernelSpec& spec,
                                         const Device& device) {
  return make_stored<GeluKernel>(spec.inputs[0].dtype, op.gelu(), spec.inputs[0].elems(), device);
}

std::unique_ptr<Kernel> make_gelu_bwd_kernel(const ops::GeluBwd& op,
                                             const KernelSpec& spec,
                                             const Device& device) {
  return make_stored<GeluBwdKernel>(
      spec.inputs[0].dtype, op.gelu(), spec.inputs[0].elems(), device);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include "core/ops/cast.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"

// A thread converts eight elements at a time, 16 bytes of bf16 and 32 of fp32, and walks on by the
// grid; the last elements are done one by one by the first threads. Bytes: 6 an element. Bound by
// memory.
namespace lockstep::cuda {
namespace {

constexpr int kGroup = Pack<Bf16>::kElems;

template <typename To, typename From>
__global__ void convert_kernel(To* y, const From* x, std::int64_t elems) {
  wait_for_earlier_work();
  const std::int64_t groups = elems / kGroup;
  for (std::int64_t g = global_thread(); g < groups; g += all_threads())
    store_floats(y + g * kGroup, load_floats<kGroup>(x + g * kGroup));
  for (std::int64_t i = groups * kGroup + global_thread(); i < elems; i += all_threads())
    y[i] = from_float<To>(to_float(x[i]));
}

template <typename To, typename From>
class CastKernel final : public BoundKernel {
 public:
  CastKernel(std::int64_t elems, const Device& device) : BoundKernel(device), elems_(elems) {}
  void run(const RunState&) override {
    launch("cast",
           cover(ceil_div(elems_, kGroup)),
           stream(),
           convert_kernel<To, From>,
           output<To>(0),
           input<From>(0),
           elems_);
  }

 private:
  std::int64_t elems_;
};

}  // namespace

std::unique_ptr<Kernel> make_cast_kernel(const ops::Cast& op,
                                         const KernelSpec& spec,
                                         const Device& device) {
  const std::int64_t elems = spec.inputs[0].elems();
  if (op.output() == DType::bf16) return std::make_unique<CastKernel<Bf16, float>>(elems, device);
  return std::make_unique<CastKernel<float, Bf16>>(elems, device);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convert.h"
#include "kernels/cuda/group_access.cuh"

// A thread handles eight elements at a time, 16 bytes of bf16 and 32 of fp32, and walks on by the
// grid; the last elements are done one by one by the first threads. Bytes of an element: 6 for a
// copy, 6 or 8 for a gradient and 4 more where it accumulates. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr int kGroup = Pack<Bf16>::kElems;

__global__ void round_kernel(Bf16* copy, const float* parameter, std::int64_t elems) {
  wait_for_earlier_work();
  const std::int64_t groups = elems / kGroup;
  for (std::int64_t g = global_thread(); g < groups; g += all_threads())
    store_floats(copy + g * kGroup, load_floats<kGroup>(parameter + g * kGroup));
  for (std::int64_t i = groups * kGroup + global_thread(); i < elems; i += all_threads())
    copy[i] = from_float<Bf16>(parameter[i]);
}

template <typename T>
__global__ void store_gradient_kernel(float* gradient,
                                      const T* values,
                                      std::int64_t elems,
                                      bool accumulate) {
  wait_for_earlier_work();
  const std::int64_t groups = elems / kGroup;
  for (std::int64_t g = global_thread(); g < groups; g += all_threads()) {
    Floats<kGroup> sum = load_floats<kGroup>(values + g * kGroup);
    if (accumulate) {
      const Floats<kGroup> before = load_floats<kGroup>(gradient + g * kGroup);
      for (int i = 0; i < kGroup; ++i) sum.values[i] += before.values[i];
    }
    store_floats(gradient + g * kGroup, sum);
  }
  for (std::int64_t i = groups * kGroup + global_thread(); i < elems; i += all_threads())
    gradient[i] = to_float(values[i]) + (accumulate ? gradient[i] : 0.0f);
}

template <typename T>
void store(const Device& device,
           float* gradient,
           const void* values,
           std::int64_t elems,
           bool accumulate) {
  launch("store_gradient",
         cover(ceil_div(elems, kGroup)),
         device.compute,
         store_gradient_kernel<T>,
         gradient,
         static_cast<const T*>(values),
         elems,
         accumulate);
}

}  // namespace

void round_to_bf16(const Device& device, void* copy, const float* parameter, std::int64_t elems) {
  launch("round_to_bf16",
         cover(ceil_div(elems, kGroup)),
         device.compute,
         round_kernel,
         static_cast<Bf16*>(copy),
         parameter,
         elems);
}

void store_gradient(const Device& device,
                    float* gradient,
                    const void* values,
                    DType type,
                    std::int64_t elems,
                    bool accumulate) {
  if (type == DType::bf16)
    store<Bf16>(device, gradient, values, elems, accumulate);
  else
    store<float>(device, gradient, values, elems, accumulate);
}

}  // namespace lockstep::cuda

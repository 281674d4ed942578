// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

using Bf16 = __nv_bfloat16;

/// What is stored, in the fp32 that arithmetic is done in; stores round to nearest even.
__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Bf16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 from_float<Bf16>(float value) {
  return __float2bfloat16_rn(value);
}

/// 16 bytes of T, read and written by one instruction.
template <typename T>
struct alignas(kPackBytes) Pack {
  static constexpr int kElems = kPackBytes / int(sizeof(T));
  T values[kElems];
};

/// `address` is aligned to 16 bytes.
template <typename T>
__device__ inline Pack<T> load_pack(const T* address) {
  return *reinterpret_cast<const Pack<T>*>(address);
}
template <typename T>
__device__ inline void store_pack(T* address, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(address) = pack;
}

}  // namespace lockstep::cuda

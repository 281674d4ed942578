// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/vector_access.cuh"

namespace lockstep::cuda {

/// `width` neighbours of T, read and written at once: a pack where extents allow packs, one element
/// where they do not, eight fp32 (two packs) next to a pack of bf16.
template <typename T, int width>
struct alignas(sizeof(T) * width < kPackBytes ? sizeof(T) * width : kPackBytes) Chunk {
  T values[width];
};

/// `address` is aligned to the chunk, at most to 16 bytes.
template <int width, typename T>
__device__ inline Chunk<T, width> load_chunk(const T* address) {
  return *reinterpret_cast<const Chunk<T, width>*>(address);
}
template <typename T, int width>
__device__ inline void store_chunk(T* address, const Chunk<T, width>& chunk) {
  *reinterpret_cast<Chunk<T, width>*>(address) = chunk;
}

}  // namespace lockstep::cuda

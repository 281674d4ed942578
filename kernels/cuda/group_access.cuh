// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/cuda/vector_access.cuh"

/// Neighbouring elements that one thread handles, for kernels whose tensors differ in type or whose
/// rows end in the middle of 16 bytes. Widths are powers of two.
namespace lockstep::cuda {

/// N elements of T, read and written by as few instructions as their size allows.
template <typename T, int N>
struct alignas(N * sizeof(T) < kPackBytes ? N * sizeof(T) : kPackBytes) Group {
  T values[N];
};

/// N values in the fp32 that arithmetic is done in.
template <int N>
struct Floats {
  float values[N];
};

/// `address` is aligned to the group's size, at most 16 bytes.
template <int N, typename T>
__device__ inline Group<T, N> load_group(const T* address) {
  return *reinterpret_cast<const Group<T, N>*>(address);
}
template <int N, typename T>
__device__ inline void store_group(T* address, const Group<T, N>& group) {
  *reinterpret_cast<Group<T, N>*>(address) = group;
}

template <int N, typename T>
__device__ inline Floats<N> load_floats(const T* address) {
  const Group<T, N> group = load_group<N>(address);
  Floats<N> result;
  for (int i = 0; i < N; ++i) result.values[i] = to_float(group.values[i]);
  return result;
}
/// Rounds to nearest even.
template <int N, typename T>
__device__ inline void store_floats(T* address, const Floats<N>& floats) {
  Group<T, N> group;
  for (int i = 0; i < N; ++i) group.values[i] = from_float<T>(floats.values[i]);
  store_group(address, group);
}

/// Calls `body` with the width, as a std::integral_constant, that threads may use in rows of
/// `extent` elements of T: those of 16 bytes where every row starts at a multiple of them, else 1.
template <typename T, typename Body>
void with_width(std::int64_t extent, Body body) {
  if (extent % Pack<T>::kElems == 0)
    body(std::integral_constant<int, Pack<T>::kElems>{});
  else
    body(std::integral_constant<int, 1>{});
}

}  // namespace lockstep::cuda

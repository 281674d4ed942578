// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/vector_access.cuh"

/// Rows of a matrix, each taken by one block: they may start and end in the middle of 16 bytes; the
/// matrix starts at a multiple of 16.
namespace lockstep::cuda {

/// How a block cuts a row of `elems` elements into packs: [0, head) singly, `packs` packs, and what
/// is left singly.
template <typename T>
struct RowParts {
  /// `begin`: the row's first element in the matrix. Rows have fewer than 2^31 elements.
  __device__ RowParts(std::int64_t begin, int elems) {
    constexpr int kElems = Pack<T>::kElems;
    const int to_pack = int(kElems - begin % kElems) % kElems;
    head = to_pack < elems ? to_pack : elems;
    packs = (elems - head) / kElems;
    tail = head + packs * kElems;
  }
  int head, packs, tail;
};

/// Calls `visit(first, pack)` for this thread's packs of a row, `first` being the index of a pack's
/// first element; kBatch packs are read before the first of them is visited.
template <bool from_the_end, typename T, typename Visit>
__device__ inline void visit_packs(const T* row, const RowParts<T>& parts, Visit visit) {
  constexpr int kElems = Pack<T>::kElems, kBatch = 4;
  const int threads = int(blockDim.x), own = int(threadIdx.x);
  const int step = (from_the_end ? -kElems : kElems) * threads;
  int first = parts.head + (from_the_end ? parts.packs - 1 - own : own) * kElems;
  int p = own;
  for (; p + (kBatch - 1) * threads < parts.packs; p += kBatch * threads, first += kBatch * step) {
    Pack<T> loaded[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) loaded[b] = load_pack(row + first + b * step);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) visit(first + b * step, loaded[b]);
  }
#pragma unroll 1
  for (; p < parts.packs; p += threads, first += step) visit(first, load_pack(row + first));
}

/// Calls `visit(index)` for this thread's element before the packs, and after them, if it has one.
template <typename T, typename Visit>
__device__ inline void visit_head(const RowParts<T>& parts, Visit visit) {
  if (int(threadIdx.x) < parts.head) visit(int(threadIdx.x));
}
template <typename T, typename Visit>
__device__ inline void visit_tail(const RowParts<T>& parts, int elems, Visit visit) {
  if (parts.tail + int(threadIdx.x) < elems) visit(parts.tail + int(threadIdx.x));
}

}  // namespace lockstep::cuda

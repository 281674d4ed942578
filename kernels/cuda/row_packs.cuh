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
  /// `begin`: the row's first element in the matrix.
  __device__ RowParts(std::int64_t begin, std::int64_t elems) {
    constexpr int kElems = Pack<T>::kElems;
    const std::int64_t to_pack = (kElems - begin % kElems) % kElems;
    head = to_pack < elems ? to_pack : elems;
    packs = (elems - head) / kElems;
    tail = head + packs * kElems;
  }
  std::int64_t head, packs, tail;
};

/// Calls `visit(first, pack)` for this thread's packs of a row, `first` being the index of a pack's
/// first element; kBatch packs are read before the first of them is visited.
template <typename T, typename Visit>
__device__ inline void visit_packs(const T* row,
                                   const RowParts<T>& parts,
                                   bool from_the_end,
                                   Visit visit) {
  constexpr int kElems = Pack<T>::kElems, kBatch = 4;
  const std::int64_t threads = blockDim.x;
  for (std::int64_t p = threadIdx.x; p < parts.packs; p += kBatch * threads) {
    Pack<T> loaded[kBatch];
    std::int64_t first[kBatch];
    for (int b = 0; b < kBatch; ++b) {
      const std::int64_t at = p + b * threads;
      first[b] = parts.head + (from_the_end ? parts.packs - 1 - at : at) * kElems;
      if (at < parts.packs) loaded[b] = load_pack(row + first[b]);
    }
    for (int b = 0; b < kBatch; ++b)
      if (p + b * threads < parts.packs) visit(first[b], loaded[b]);
  }
}

/// Calls `visit(index)` for this thread's element before the packs, and after them, if it has one.
template <typename T, typename Visit>
__device__ inline void visit_head(const RowParts<T>& parts, Visit visit) {
  if (threadIdx.x < parts.head) visit(std::int64_t(threadIdx.x));
}
template <typename T, typename Visit>
__device__ inline void visit_tail(const RowParts<T>& parts, std::int64_t elems, Visit visit) {
  if (parts.tail + threadIdx.x < elems) visit(parts.tail + threadIdx.x);
}

}  // namespace lockstep::cuda

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/step/flat.h"

// The tree sum of Backend::sum_tree() in one launch. A thread takes up to four neighbouring
// elements, as many as addresses allow and still give each multiprocessor a block: with many ranks
// a piece is small, and has a term for each of them. It reads kAheadBytes of the terms at a time,
// keeps the top of its stack in registers and what lies below in shared memory, where only it reads
// and writes, so that no barrier is needed. Bytes an element: 4 for each term and 4 for the result.
// Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{48} << 10;
/// Of terms that a thread has under way at once.
constexpr int kAheadBytes = 128;

/// An argument of the kernel. Devices take 32,764 bytes of those.
template <int max>
struct TermTable {
  static constexpr int kMax = max;
  const float* values[max];
  std::uint8_t merges[max];
  int count = 0;
};
using FewTerms = TermTable<32>;
using ManyTerms = TermTable<3072>;

/// The sum of kWidth elements from `at` on, kAhead terms at a time. `stack`: where the first sum
/// below the top goes, the next ones `level` floats apart.
template <int kWidth, int kAhead, typename Table>
__device__ inline Floats<kWidth> sum_of_terms(const Table& terms,
                                              std::int64_t at,
                                              float* stack,
                                              int level) {
  Floats<kWidth> top = load_floats<kWidth>(terms.values[0] + at);
  for (int first = 1; first < terms.count; first += kAhead) {
    Floats<kWidth> ahead[kAhead];
#pragma unroll
    for (int t = 0; t < kAhead; ++t)
      if (first + t < terms.count) ahead[t] = load_floats<kWidth>(terms.values[first + t] + at);
#pragma unroll
    for (int t = 0; t < kAhead; ++t) {
      if (first + t >= terms.count) break;
      int merges = terms.merges[first + t];
      if (merges == 0) {
        store_floats(stack, top);
        stack += level;
        top = ahead[t];
        continue;
      }
      for (int i = 0; i < kWidth; ++i) top.values[i] += ahead[t].values[i];
#pragma unroll 1
      for (; merges > 1; --merges) {
        stack -= level;
        const Floats<kWidth> below = load_floats<kWidth>(stack);
        for (int i = 0; i < kWidth; ++i) top.values[i] = below.values[i] + top.values[i];
      }
    }
  }
  return top;
}

template <int kWidth, typename Table>
__global__ void sum_tree_kernel(const __grid_constant__ Table terms,
                                float* result,
                                std::int64_t elems) {
  wait_for_earlier_work();
  // [sums below the top][threads][kWidth]
  float* const stack = dynamic_shared<float>(0) + threadIdx.x * kWidth;
  const int level = int(blockDim.x) * kWidth;
  std::int64_t at = global_thread() * kWidth;
  if (at + kWidth <= elems) {
    constexpr int kAhead = kAheadBytes / (kWidth * int(sizeof(float)));
    store_floats(result + at, sum_of_terms<kWidth, kAhead>(terms, at, stack, level));
    return;
  }
  // What fills no access, a few elements of one thread.
  for (; at < elems; ++at) store_floats(result + at, sum_of_terms<1, 4>(terms, at, stack, level));
}

/// Max count of sums below the top at once.
int depth_below(std::span<const TreeTerm> terms) {
  int below = 0, depth = 0;
  for (std::size_t t = 1; t < terms.size(); ++t) {
    below += 1 - terms[t].merges;  // the first merge adds the new term to the top
    depth = std::max(depth, below);
  }
  return depth;
}

/// Elements that all addresses let a thread read at once: 4, 2 or 1.
int widest_access(std::span<const TreeTerm> terms, const float* result) {
  auto addresses = reinterpret_cast<std::uintptr_t>(result);
  for (const TreeTerm& term : terms) addresses |= reinterpret_cast<std::uintptr_t>(term.values);
  return addresses % kPackBytes == 0 ? 4 : addresses % (kPackBytes / 2) == 0 ? 2 : 1;
}

struct SumTreeShape {
  int width = 1, threads = kWarp;
  std::size_t shared_bytes = 0;
};

/// The widest accesses, then the largest blocks, of which each multiprocessor gets one; where none
/// are as many, as many blocks as there can be. None: a stack does not fit.
std::optional<SumTreeShape> shape_for(const Device& device,
                                      std::span<const TreeTerm> terms,
                                      const float* result,
                                      std::int64_t elems) {
  const auto depth = std::size_t(depth_below(terms));
  std::optional<SumTreeShape> shape;
  for (int width = widest_access(terms, result); width >= 1; width /= 2)
    for (int threads = kBlock; threads >= kWarp; threads /= 2) {
      const std::size_t bytes = depth * std::size_t(threads * width) * sizeof(float);
      if (bytes > kSharedBytes) continue;
      shape = {width, threads, bytes};
      if (ceil_div(elems, width * threads) >= device.multiprocessors) return shape;
    }
  return shape;
}

template <typename Table>
void start(const Device& device,
           const SumTreeShape& shape,
           std::span<const TreeTerm> terms,
           float* result,
           std::int64_t elems) {
  Table table;
  for (const TreeTerm& term : terms) {
    table.values[table.count] = term.values;
    table.merges[table.count++] = std::uint8_t(term.merges);
  }
  auto* const kernel = shape.width == 4   ? sum_tree_kernel<4, Table>
                       : shape.width == 2 ? sum_tree_kernel<2, Table>
                                          : sum_tree_kernel<1, Table>;
  launch("sum_tree",
         {.grid = dim3(unsigned(ceil_div(elems, std::int64_t(shape.width) * shape.threads))),
          .block = dim3(unsigned(shape.threads)),
          .shared_bytes = shape.shared_bytes},
         device.compute,
         kernel,
         table,
         result,
         elems);
}

}  // namespace

bool sum_tree(const Device& device,
              std::span<const TreeTerm> terms,
              float* result,
              std::int64_t elems) {
  if (terms.size() > ManyTerms::kMax) return false;
  const std::optional<SumTreeShape> shape = shape_for(device, terms, result, elems);
  if (!shape) return false;
  if (terms.size() <= FewTerms::kMax)
    start<FewTerms>(device, *shape, terms, result, elems);
  else
    start<ManyTerms>(device, *shape, terms, result, elems);
  return true;
}

}  // namespace lockstep::cuda

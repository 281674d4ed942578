// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/flat.h"

// The tree sum of Backend::sum_tree() in one launch. A block takes a tile of the elements, a thread
// four neighbouring ones where addresses allow; it walks over the terms, keeps the top of its stack
// in registers and what lies below in shared memory, where only it reads and writes, so that no
// barrier is needed. Bytes an element: 4 for each term and 4 for the result. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kTile = 4096;
constexpr std::size_t kSharedBytes = std::size_t{48} << 10;

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

struct SumTreeShape {
  std::int64_t elems = 0;
  bool aligned = false;
};

template <typename Table>
__global__ void sum_tree_kernel(const __grid_constant__ Table terms,
                                float* result,
                                SumTreeShape shape) {
  constexpr int kWidest = Pack<float>::kElems;
  // [sums below the top][threads][kWidest]
  float* const stack = dynamic_shared<float>(0) + threadIdx.x * kWidest;
  const int level = int(blockDim.x) * kWidest;
  const std::int64_t begin = std::int64_t(blockIdx.x) * kTile, end = begin + kTile;
  for_each_in_tile(begin,
                   end < shape.elems ? end : shape.elems,
                   shape.aligned,
                   [&](std::int64_t at, auto width) {
                     constexpr int kWidth = decltype(width)::value;
                     Floats<kWidth> top = load_floats<kWidth>(terms.values[0] + at);
                     int below = 0;
                     for (int t = 1; t < terms.count; ++t) {
                       for (int i = 0; i < kWidth; ++i) stack[below * level + i] = top.values[i];
                       ++below;
                       top = load_floats<kWidth>(terms.values[t] + at);
                       for (int m = terms.merges[t]; m > 0; --m) {
                         --below;
                         for (int i = 0; i < kWidth; ++i)
                           top.values[i] = stack[below * level + i] + top.values[i];
                       }
                     }
                     store_floats(result + at, top);
                   });
}

/// Max count of sums below the top at once.
int depth_below(std::span<const TreeTerm> terms) {
  int below = 0, depth = 0;
  for (std::size_t t = 1; t < terms.size(); ++t) {
    depth = std::max(depth, ++below);
    below -= terms[t].merges;
  }
  return depth;
}

template <typename Table>
void start(const Device& device,
           std::span<const TreeTerm> terms,
           float* result,
           std::int64_t elems,
           int threads) {
  Table table;
  SumTreeShape shape{.elems = elems, .aligned = aligned_to_packs(result)};
  for (const TreeTerm& term : terms) {
    shape.aligned = shape.aligned && aligned_to_packs(term.values);
    table.values[table.count] = term.values;
    table.merges[table.count++] = std::uint8_t(term.merges);
  }
  launch("sum_tree",
         {.grid = dim3(unsigned(ceil_div(elems, kTile))),
          .block = dim3(unsigned(threads)),
          .shared_bytes = std::size_t(depth_below(terms)) * std::size_t(threads) * kPackBytes},
         device.compute,
         sum_tree_kernel<Table>,
         table,
         result,
         shape);
}

}  // namespace

bool sum_tree(const Device& device,
              std::span<const TreeTerm> terms,
              float* result,
              std::int64_t elems) {
  int threads = kBlock;
  while (std::size_t(depth_below(terms)) * std::size_t(threads) * kPackBytes > kSharedBytes)
    threads /= 2;
  if (terms.size() > ManyTerms::kMax || threads < kWarp) return false;
  if (terms.size() <= FewTerms::kMax)
    start<FewTerms>(device, terms, result, elems, threads);
  else
    start<ManyTerms>(device, terms, result, elems, threads);
  return true;
}

}  // namespace lockstep::cuda

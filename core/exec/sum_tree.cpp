// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/check.h"
#include "core/exec/backend.h"

namespace lockstep {
namespace {

// Elements that stay in the first-level cache while several additions pass over them.
constexpr std::int64_t kBlock = 2048;
// Terms that may stand on the stack at once: a tree over 2^31 of them has no more.
constexpr int kDepth = 32;

struct Stack {
  float* sums[kDepth];
  int size = 0;
};

/// Elements `at` and following of the terms; only the last addition writes to `result`.
void sum_block(Backend& backend,
               std::span<const TreeTerm> terms,
               float* result,
               std::int64_t at,
               std::int64_t elems) {
  Stack stack;
  std::size_t sums_left = terms.size() - 1;
  for (const TreeTerm& term : terms) {
    LOCKSTEP_ASSERT(stack.size < kDepth && stack.size >= term.merges);
    stack.sums[stack.size++] = term.values;
    for (int i = 0; i < term.merges; ++i) {
      const float* right = stack.sums[--stack.size];
      float*& left = stack.sums[stack.size - 1];
      float* const sum = --sums_left == 0 || right == result ? result : left;
      backend.add(sum + at, left + at, right + at, elems);
      left = sum;
    }
  }
  LOCKSTEP_ASSERT(stack.size == 1 && sums_left == 0);
}

}  // namespace

void Backend::sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems) {
  if (elems == 0) return;
  if (terms.size() == 1) {
    if (terms[0].values != result)
      copy(result, terms[0].values, std::size_t(elems) * sizeof(float));
    return;
  }
  // A single addition has nothing to keep in a cache, nor has a device that takes launches.
  const std::int64_t block = terms.size() == 2 || !is_host_memory(result) ? elems : kBlock;
  for (std::int64_t at = 0; at < elems; at += block)
    sum_block(*this, terms, result, at, std::min(block, elems - at));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

namespace lockstep::testing {

/// Values of shards; empty where a shard is absent.
using Leaves = std::vector<std::optional<float>>;

/// T(lo, hi) of Note [Reduction tree], word for word.
inline std::optional<float> naive_tree(const Leaves& leaves, int lo, int hi) {
  if (hi - lo == 1) return leaves[std::size_t(lo)];
  int half = 1;
  while (2 * half < hi - lo) half *= 2;
  const std::optional<float> left = naive_tree(leaves, lo, lo + half);
  const std::optional<float> right = naive_tree(leaves, lo + half, hi);
  if (!left || !right) return left ? left : right;
  return *left + *right;
}

}  // namespace lockstep::testing

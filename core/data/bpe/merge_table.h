// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data {

/// What becomes of a pair of tokens.
struct Merge {
  std::int32_t rank = -1;  ///< its place among the merges; -1: the pair does not merge
  std::int32_t token = -1;
};

/// Merges by their pairs, with open addressing.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges) {
    std::size_t slots = 16;
    while (slots < 2 * merges) slots *= 2;
    slots_.resize(slots);
    mask_ = slots - 1;
  }

  /// A pair that is there gets the new value.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    const std::uint64_t key = key_of(left, right);
    std::size_t at = place_of(key);
    while (slots_[at].merge.rank >= 0 && slots_[at].key != key) at = (at + 1) & mask_;
    slots_[at] = {key, merge};
  }
  Merge find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = place_of(key); slots_[at].merge.rank >= 0; at = (at + 1) & mask_)
      if (slots_[at].key == key) return slots_[at].merge;
    return {};
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge = {};
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
  }
  std::size_t place_of(std::uint64_t key) const {
    // Fibonacci hashing: the upper bits of the product depend on all of the key.
    return std::size_t(key * 0x9E3779B97F4A7C15u >> 32) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "core/base/random.h"

#include <cmath>
#include <numbers>

namespace lockstep {

float normal_of(std::uint32_t radius_word, std::uint32_t angle_word) {
  const double radius = std::sqrt(-2.0 * std::log((double(radius_word) + 0.5) * 0x1p-32));
  return float(radius * std::cos(2.0 * std::numbers::pi * double(angle_word) * 0x1p-32));
}

std::uint32_t RandomStream::next() {
  if (used_ == 4) {
    block_ = philox(key_, counter_, block_index_++);
    used_ = 0;
  }
  return block_[std::size_t(used_++)];
}

std::uint32_t RandomStream::below(std::uint32_t bound) {
  // Lemire, "Fast Random Integer Generation in an Interval", 2019: reject the biased low words.
  std::uint64_t product = std::uint64_t{next()} * bound;
  if (std::uint32_t(product) < bound) {
    const std::uint32_t threshold = (0u - bound) % bound;
    while (std::uint32_t(product) < threshold) product = std::uint64_t{next()} * bound;
  }
  return std::uint32_t(product >> 32);
}

}  // namespace lockstep

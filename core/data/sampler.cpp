// SPDX-License-Identifier: Apache-2.0
#include "core/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"

namespace lockstep::data {
namespace {

/// Counter bits that tell a rejected draw's replacements from first draws.
constexpr std::uint64_t kRedraw = std::uint64_t{1} << 63;

/// Lemire's unbiased integer in [0, bound) from `word`; position `i` keys the replacements of words
/// that would bias it, which come up with probability below bound / 2^32.
std::uint32_t below(std::uint32_t bound,
                    std::uint32_t word,
                    std::uint64_t key,
                    std::uint64_t epoch,
                    std::uint64_t i) {
  std::uint64_t product = std::uint64_t{word} * bound;
  if (std::uint32_t(product) < bound) [[unlikely]] {
    const std::uint32_t threshold = (0u - bound) % bound;
    for (std::uint64_t attempt = 0; std::uint32_t(product) < threshold; ++attempt)
      product = std::uint64_t{philox(key, epoch, kRedraw | attempt << 32 | i)[0]} * bound;
  }
  return std::uint32_t(product >> 32);
}

}  // namespace

Sampler::Sampler(std::int64_t size, std::uint64_t seed, bool shuffle)
    : size_(size), seed_(random_key(seed, "sampler")), shuffle_(shuffle) {
  LOCKSTEP_CHECK(size >= 1 && size < (std::int64_t{1} << 32),
                 ConfigError,
                 "sampler: expected 1 to 2^32 - 1 samples, got {}",
                 size);
  order_.resize(std::size_t(size));
}

std::span<const std::uint32_t> Sampler::range(std::uint64_t epoch,
                                              std::int64_t first,
                                              std::int64_t count) {
  LOCKSTEP_ASSERT(first >= 0 && count >= 0 && first <= size_ - count);
  if (!prepared_ || (shuffle_ && epoch != epoch_)) prepare(epoch);
  return std::span(order_).subspan(std::size_t(first), std::size_t(count));
}

void Sampler::prepare(std::uint64_t epoch) {
  std::iota(order_.begin(), order_.end(), std::uint32_t{0});
  prepared_ = true;
  epoch_ = epoch;
  if (!shuffle_) return;
  // One Philox block serves four swaps: position i, counted from the end, takes word i % 4.
  for (std::int64_t first = 0; first < size_ - 1; first += 4) {
    const RandomBlock words = philox(seed_, epoch, std::uint64_t(first / 4));
    for (std::int64_t i = first; i < std::min(first + 4, size_ - 1); ++i) {
      const std::int64_t left = size_ - i;
      const std::uint32_t chosen =
          below(std::uint32_t(left), words[std::size_t(i & 3)], seed_, epoch, std::uint64_t(i));
      std::swap(order_[std::size_t(left - 1)], order_[chosen]);
    }
  }
}

}  // namespace lockstep::data

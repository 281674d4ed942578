// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy
/// as 1, 2, 3", SC 2011). A number depends on its key and counter alone, so any rank, worker or
/// kernel computes the same one; there is no state to save.
using RandomBlock = std::array<std::uint32_t, 4>;

/// Ten Philox rounds: four independent 32-bit words for (key, counter).
constexpr RandomBlock philox(std::uint64_t key,
                             std::uint64_t counter_low,
                             std::uint64_t counter_high) {
  std::uint32_t k0 = std::uint32_t(key), k1 = std::uint32_t(key >> 32);
  RandomBlock c{std::uint32_t(counter_low),
                std::uint32_t(counter_low >> 32),
                std::uint32_t(counter_high),
                std::uint32_t(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {std::uint32_t(p1 >> 32) ^ c[1] ^ k0,
         std::uint32_t(p1),
         std::uint32_t(p0 >> 32) ^ c[3] ^ k1,
         std::uint32_t(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// FNV-1a over `text`, folded with `seed`: turns (seed, name) into a Philox key.
constexpr std::uint64_t random_key(std::uint64_t seed, std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ull ^ (seed * 0x9E3779B97F4A7C15ull);
  for (char c : text) h = (h ^ std::uint8_t(c)) * 0x100000001b3ull;
  return h;
}

/// Uniform in [0, 1) with 24 random bits, exact in fp32.
constexpr float uniform01(std::uint32_t word) { return float(word >> 8) * 0x1p-24f; }

/// Standard normal from two words (Box and Muller 1958), computed in fp64.
float normal_of(std::uint32_t radius_word, std::uint32_t angle_word);

/// A short sequence of numbers from one (key, counter), for code that draws a few at a time.
class RandomStream {
 public:
  RandomStream(std::uint64_t key, std::uint64_t counter) : key_(key), counter_(counter) {}

  std::uint32_t next();
  float uniform() { return uniform01(next()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Unbiased integer in [0, bound); `bound` >= 1.
  std::uint32_t below(std::uint32_t bound);

 private:
  std::uint64_t key_;
  std::uint64_t counter_;
  std::uint64_t block_index_ = 0;
  RandomBlock block_{};
  int used_ = 4;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "core/base/xxh64.h"

#include <bit>
#include <cstring>
#include <initializer_list>

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87ull;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4full;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9ull;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63ull;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5ull;

template <typename Word>
std::uint64_t word_at(const std::uint8_t* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// Takes a word of 8 bytes into an accumulator.
std::uint64_t round(std::uint64_t accumulator, std::uint64_t word) {
  return std::rotl(accumulator + word * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t accumulator) {
  return (hash ^ round(0, accumulator)) * kPrime1 + kPrime4;
}

/// Up to 31 bytes that are left, then the final mixing.
std::uint64_t finish(std::uint64_t hash, const std::uint8_t* p, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, p += 8)
    hash = std::rotl(hash ^ round(0, word_at<std::uint64_t>(p)), 27) * kPrime1 + kPrime4;
  for (; bytes >= 4; bytes -= 4, p += 4)
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(p) * kPrime1), 23) * kPrime2 + kPrime3;
  for (; bytes > 0; --bytes, ++p) hash = std::rotl(hash ^ (*p * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t xxh64(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  const std::uint64_t length = bytes;
  if (bytes < 32) return finish(seed + kPrime5 + length, p, bytes);
  std::uint64_t a = seed + kPrime1 + kPrime2, b = seed + kPrime2, c = seed, d = seed - kPrime1;
  for (; bytes >= 32; bytes -= 32, p += 32) {
    a = round(a, word_at<std::uint64_t>(p));
    b = round(b, word_at<std::uint64_t>(p + 8));
    c = round(c, word_at<std::uint64_t>(p + 16));
    d = round(d, word_at<std::uint64_t>(p + 24));
  }
  std::uint64_t hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
  for (const std::uint64_t accumulator : {a, b, c, d}) hash = merge(hash, accumulator);
  return finish(hash + length, p, bytes);
}

}  // namespace lockstep

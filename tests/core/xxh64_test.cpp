// SPDX-License-Identifier: Apache-2.0
#include "core/base/xxh64.h"

#include <array>
#include <gtest/gtest.h>
#include <set>
#include <string_view>
#include <vector>

#include "core/data/input_file.h"

namespace lockstep {
namespace {

// As the reference implementation (xxhash of the Python package index) has them.
TEST(Xxh64, KnownValues) {
  EXPECT_EQ(xxh64("xxhash", 6), 0x32dd38952c4bc720u);
  std::array<std::uint8_t, 1000> data{};
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::uint8_t(i * 7 + i * i);
  struct Value {
    std::size_t bytes;
    std::uint64_t seed_0, other_seed;
  };
  constexpr Value kValues[] = {
      {0, 0xef46db3751d8e999u, 0xc4349fc93c010000u},
      {1, 0xe934a84adb052768u, 0x126bb57a12364aa5u},
      {3, 0xbb3a592908a981a8u, 0x4087bf39440cfbe3u},
      {4, 0x798a8b758de10b9cu, 0xa463af74cae85764u},
      {7, 0xc524fe6186d68234u, 0x144908a3a5c6c0ecu},
      {8, 0x628b254fd17d4862u, 0x0c999368d33aa160u},
      {31, 0xff266226c2de2379u, 0x216228f1e0fc526du},
      {32, 0xad211363e6d6be0fu, 0x71fb2816337b30afu},
      {33, 0xa8489fde2b7ec3aeu, 0x9693c363b9bc5379u},
      {63, 0xe91f43e8d0ae523eu, 0xa3c04edf5eef4c4au},
      {64, 0x81c939fdb6a47468u, 0x3ae3692a22a26f42u},
      {100, 0xe43cd255bde054f5u, 0x0162a24003d36a72u},
      {1000, 0xe54ef276878ba050u, 0xd4b04aa5568e6e61u},
  };
  for (const Value& value : kValues) {
    EXPECT_EQ(xxh64(data.data(), value.bytes), value.seed_0) << value.bytes;
    EXPECT_EQ(xxh64(data.data(), value.bytes, 0x9e3779b97f4a7c15u), value.other_seed)
        << value.bytes;
  }
}

TEST(Xxh64, ReadsFromAnyAddress) {
  const std::string_view text = "  the same bytes at another address, more than thirty-two of them";
  const std::vector<char> copy(text.begin() + 1, text.end());
  EXPECT_EQ(xxh64(text.data() + 1, copy.size()), xxh64(copy.data(), copy.size()));
}

using Hash = std::uint64_t (*)(const void*, std::size_t, std::uint64_t);

/// Flips each set of up to `max_flips` bits among `first`, `first + step`, ... of 64 bytes, and
/// returns how many sets share their sum with another one.
std::size_t shared_sums(Hash hash, std::size_t first, std::size_t step, int max_flips) {
  std::array<std::uint8_t, 64> data{};
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::uint8_t(i * 37 + 11);
  std::set<std::uint64_t> sums;
  std::size_t sets = 0;
  const auto flip_from = [&](const auto& self, std::size_t bit, int flips) -> void {
    sums.insert(hash(data.data(), data.size(), 0));
    ++sets;
    for (; flips > 0 && bit < 8 * data.size(); bit += step) {
      data[bit / 8] ^= std::uint8_t(1 << bit % 8);
      self(self, bit + step, flips - 1);
      data[bit / 8] ^= std::uint8_t(1 << bit % 8);
    }
  };
  flip_from(flip_from, first, max_flips);
  return sets - sums.size();
}

TEST(Xxh64, TellsApartAllPairsOfBits) { EXPECT_EQ(shared_sums(xxh64, 0, 1, 2), 0u); }

// Those that a multiplication does not carry on.
TEST(Xxh64, TellsApartSetsOfHighBits) {
  EXPECT_EQ(shared_sums(xxh64, 7, 8, 3), 0u) << "of bytes";
  EXPECT_EQ(shared_sums(xxh64, 31, 32, 5), 0u) << "of words of 4 bytes";
  EXPECT_EQ(shared_sums(xxh64, 63, 64, 8), 0u) << "of words of 8 bytes";
  EXPECT_GT(shared_sums(data::content_hash, 31, 32, 3), 0u) << "what sums of packs missed once";
}

}  // namespace
}  // namespace lockstep

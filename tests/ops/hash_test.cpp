// SPDX-License-Identifier: Apache-2.0
// What the hash of replicas notices, and Backend::hash on the CPU with both instruction sets.
#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/hash_cases.h"

namespace lockstep::test {
namespace {

std::vector<float> weights() {
  const HostTensor random = random_f32({150}, 5);
  std::vector<float> values(random.as<float>(), random.as<float>() + 150);
  std::fill(values.begin() + 64, values.begin() + 128, 0.0f);  // as moments are at the start
  return values;
}

std::uint64_t hash_of(const std::vector<float>& values) {
  return reference_hash(values, {.offset = 0, .elems = std::int64_t(values.size())});
}

float with_flipped_bit(float value, int bit) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << bit));
}

TEST(ReplicaHash, EveryFlippedBitGivesAHashOfItsOwn) {
  std::vector<float> values = weights();
  std::set<std::uint64_t> seen{hash_of(values)};
  for (float& value : values)
    for (int bit = 0; bit < 32; ++bit) {
      const float before = value;
      value = with_flipped_bit(value, bit);
      EXPECT_TRUE(seen.insert(hash_of(values)).second) << "bit " << bit;
      value = before;
    }
}

TEST(ReplicaHash, TwoFlippedBitsGiveAHashOfTheirOwn) {
  const std::vector<float> values = weights();
  std::vector<std::uint64_t> changes;  // by one flip each; those of two places add up
  for (std::size_t i = 0; i < values.size(); i += 3)
    for (int bit = 0; bit < 32; ++bit)
      changes.push_back(
          replica_hash_mix(std::bit_cast<std::uint32_t>(with_flipped_bit(values[i], bit)),
                           std::int64_t(i)) -
          replica_hash_mix(std::bit_cast<std::uint32_t>(values[i]), std::int64_t(i)));
  // Two cancel out where one is minus the other. Two of 1.3 million sums among 2^64 are equal with
  // a probability of 4e-8.
  std::vector<std::uint64_t> sums;
  for (std::size_t a = 0; a < changes.size(); ++a)
    for (std::size_t b = a / 32 * 32 + 32; b < changes.size(); ++b)
      sums.push_back(changes[a] + changes[b]);
  EXPECT_EQ(std::ranges::count(sums, 0u), 0);
  std::ranges::sort(sums);
  EXPECT_EQ(std::ranges::adjacent_find(sums), sums.end());
}

TEST(ReplicaHash, ExchangedElementsAndSignsOfZeroShow) {
  std::vector<float> values = weights();
  const std::uint64_t before = hash_of(values);
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::swap(values[i], values[j]);
      EXPECT_NE(hash_of(values), before) << i << " and " << j;
      std::swap(values[i], values[j]);
    }
  values[70] = -0.0f;
  EXPECT_NE(hash_of(values), before);
}

// Every bit of the input, and the place, decides about every bit of the mix: over 2^14 places a
// share of one half has a standard deviation of 2^-8; six of them.
TEST(ReplicaHash, EveryBitOfTheMixDependsOnEveryBit) {
  constexpr int kPlaces = 1 << 14;
  const auto bits = std::bit_cast<std::uint32_t>(0.01f);
  for (int bit = 0; bit <= 32; ++bit) {  // 32: the next place
    int flipped[64] = {};
    for (int i = 0; i < kPlaces; ++i) {
      const std::uint64_t other =
          bit < 32 ? replica_hash_mix(bits ^ (1u << bit), i) : replica_hash_mix(bits, i + 1);
      const std::uint64_t change = replica_hash_mix(bits, i) ^ other;
      for (int b = 0; b < 64; ++b) flipped[b] += int(change >> b & 1);
    }
    for (int b = 0; b < 64; ++b)
      EXPECT_NEAR(double(flipped[b]) / kPlaces, 0.5, 6 * 0x1p-8) << "bit " << bit << " on " << b;
  }
}

TEST(CpuHash, FollowsTheFormulaWithAllInstructionSets) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    expect_hashes_of_the_formula(*backend);
    expect_hashes_of_many_ranges(*backend);
  });
}

// What lies between ranges, as padding does, has no part in it.
TEST(CpuHash, PaddingIsNotInIt) {
  const auto backend = make_cpu_backend();
  std::vector<float> values = weights();
  const std::vector<HashRange> ranges{{.offset = 0, .elems = 61}, {.offset = 128, .elems = 22}};
  const auto before = hashes(*backend, values, ranges);
  values[61] = values[127] = NAN;
  EXPECT_EQ(hashes(*backend, values, ranges), before);
  values[60] = 5;
  EXPECT_NE(hashes(*backend, values, ranges)[0], before[0]);
  EXPECT_EQ(hashes(*backend, values, ranges)[1], before[1]);
}

}  // namespace
}  // namespace lockstep::test

// SPDX-License-Identifier: Apache-2.0
#include "core/data/sampler.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <span>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

std::vector<std::int64_t> epoch_of(Sampler& sampler, std::uint64_t epoch, std::int64_t size) {
  const auto order = sampler.range(epoch, 0, size);
  return {order.begin(), order.end()};
}

TEST(Sampler, EveryEpochIsAPermutation) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 120, 1001}) {
    Sampler sampler(size, 7, true);
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      auto order = epoch_of(sampler, epoch, size);
      std::sort(order.begin(), order.end());
      for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(order[std::size_t(i)], i);
    }
  }
}

// Orders are part of what a seed promises: a run must give the same bits in the next version.
TEST(Sampler, GoldenOrders) {
  Sampler ten(10, 1, true);
  EXPECT_EQ(epoch_of(ten, 0, 10), (std::vector<std::int64_t>{1, 6, 8, 5, 3, 7, 4, 2, 0, 9}));
  EXPECT_EQ(epoch_of(ten, 1, 10), (std::vector<std::int64_t>{2, 1, 6, 7, 8, 3, 5, 9, 0, 4}));
  Sampler large(60000, 1, true);
  const auto first = large.range(2, 0, 4);
  EXPECT_EQ(std::vector<std::int64_t>(first.begin(), first.end()),
            (std::vector<std::int64_t>{33432, 5639, 53748, 14580}));
}

TEST(Sampler, DependsOnSeedAndEpochAlone) {
  Sampler a(100, 1, true), b(100, 1, true), other(100, 2, true);
  const auto epoch3 = epoch_of(a, 3, 100);
  epoch_of(b, 9, 100);
  EXPECT_EQ(epoch_of(b, 3, 100), epoch3);
  EXPECT_NE(epoch_of(b, 4, 100), epoch3);
  EXPECT_NE(epoch_of(other, 3, 100), epoch3);
  EXPECT_TRUE(std::ranges::equal(a.range(3, 40, 10), std::span(epoch3).subspan(40, 10)));
}

TEST(Sampler, WithoutShufflingKeepsTheOrder) {
  Sampler sampler(50, 1, false);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(sampler.range(epoch, i, 1)[0], i);
}

TEST(Sampler, AllPermutationsAreEquallyLikely) {
  constexpr int kEpochs = 24000;
  Sampler sampler(4, 11, true);
  std::vector<int> counts(256);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = sampler.range(epoch, 0, 4);
    ++counts[std::size_t(order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3])];
  }
  std::erase(counts, 0);
  ASSERT_EQ(counts.size(), 24u);
  // Binomial deviation sqrt(24000 / 24 * 23 / 24) = 31; five of them.
  for (const int count : counts) EXPECT_NEAR(count, kEpochs / 24, 5 * 31);
}

TEST(Sampler, RefusesSizesAndPositionsOutOfRange) {
  EXPECT_THROW(Sampler(0, 1, true), ConfigError);
  EXPECT_THROW(Sampler(std::int64_t{1} << 32, 1, true), ConfigError);
  Sampler sampler(10, 1, true);
  EXPECT_NO_THROW(sampler.range(0, 10, 0));
  EXPECT_THROW(sampler.range(0, 5, 6), InternalError);
  EXPECT_THROW(sampler.range(0, -1, 2), InternalError);
}

}  // namespace
}  // namespace lockstep::data

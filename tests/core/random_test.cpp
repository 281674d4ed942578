// SPDX-License-Identifier: Apache-2.0
#include "core/base/random.h"

#include <cmath>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (RandomBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox(0xffffffffffffffffull, 0xffffffffffffffffull, 0xffffffffffffffffull),
            (RandomBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
            (RandomBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream(7, 0);
  int counts[10] = {};
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) ++counts[stream.below(10)];
  // Binomial standard deviation sqrt(n p q) = 95; five of them.
  for (int count : counts) EXPECT_NEAR(count, kDraws / 10, 5 * 95);
}

TEST(RandomStream, NormalNumbersHaveUnitVariance) {
  RandomStream stream(7, 1);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint32_t radius = stream.next();
    const double x = normal_of(radius, stream.next());
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 5 / std::sqrt(double(kDraws)));
  EXPECT_NEAR(squares / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace lockstep

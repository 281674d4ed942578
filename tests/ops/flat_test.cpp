// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/flat.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "core/exec/backend.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/small_gemm.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

const std::int64_t kLengths[] = {
    0, 1, 7, 8, 15, 16, 31, 33, 1025, 4096, 4097, 2 * 4096, 3 * 4096 + 5, 4 * 4096, 9 * 4096 + 7};

std::vector<float> floats(std::int64_t elems, std::uint64_t seed) {
  const HostTensor t = random_f32({elems}, seed);
  return {t.as<float>(), t.as<float>() + elems};
}

TEST(SquaredNorm, AgreesWithDouble) {
  for_each_isa([] {
    for (std::int64_t n : kLengths) {
      const std::vector<float> v = floats(n, 1);
      double expected = 0;
      for (float x : v) expected += double(x) * double(x);
      // Squares of fp32 values are exact in fp64; each of n additions rounds.
      EXPECT_NEAR(LOCKSTEP_CHOOSE(squared_norm)(v.data(), n, kNormBlock),
                  expected,
                  0x1p-53 * double(n) * expected)
          << n;
    }
  });
}

TEST(SquaredNorm, IsTheSumOfItsBlocksWhereverTheyLie) {
  for_each_isa([] {
    const auto norm = LOCKSTEP_CHOOSE(squared_norm);
    for (std::int64_t n : kLengths) {
      const std::vector<float> v = floats(n, 2);
      double sum = 0;
      for (std::int64_t i = 0; i < n; i += kNormBlock) {
        const std::int64_t length = std::min(kNormBlock, n - i);
        std::vector<float> moved(3, NAN);
        moved.insert(moved.end(), v.begin() + i, v.begin() + i + length);
        moved.push_back(NAN);
        sum += norm(moved.data() + 3, length, kNormBlock);
      }
      EXPECT_EQ(norm(v.data(), n, kNormBlock), sum) << n;
    }
  });
}

TEST(SquaredNorm, InstructionSetsAgreeToTheBit) {
  for (std::int64_t n : kLengths) {
    const std::vector<float> v = floats(n, 3);
    std::vector<double> norms;
    for_each_isa([&] { norms.push_back(LOCKSTEP_CHOOSE(squared_norm)(v.data(), n, kNormBlock)); });
    for (const double norm : norms) EXPECT_EQ(norm, norms[0]) << n;
  }
}

TEST(FlatAdd, AddsInPlaceAndBesides) {
  for_each_isa([] {
    for (std::int64_t n : kLengths) {
      const std::vector<float> a = floats(n, 4), b = floats(n, 5);
      std::vector<float> out(std::size_t(n) + 1, -7.0f), in_place = a;
      LOCKSTEP_CHOOSE(add<float>)(out.data(), a.data(), b.data(), n);
      LOCKSTEP_CHOOSE(add<float>)(in_place.data(), in_place.data(), b.data(), n);
      for (std::size_t i = 0; i < std::size_t(n); ++i) {
        ASSERT_EQ(out[i], a[i] + b[i]);
        ASSERT_EQ(in_place[i], out[i]);
      }
      EXPECT_EQ(out.back(), -7.0f) << "wrote past the end";
    }
  });
}

TEST(RunningStatistic, MovesTowardsTheWeightedSum) {
  for_each_isa([] {
    for (std::int64_t n : kLengths) {
      std::vector<float> value = floats(n, 6);
      const std::vector<float> before = value, sum = floats(n, 7);
      LOCKSTEP_CHOOSE(update_statistic)(value.data(), sum.data(), 0.75f, 0.1f, n);
      for (std::size_t i = 0; i < std::size_t(n); ++i)
        // Four roundings of values below 2.
        ASSERT_NEAR(value[i], before[i] + 0.1 * (double(sum[i]) - 0.75 * before[i]), 4 * 0x1p-23);
    }
  });
}

/// Each instruction set computes C(m, n) as one chain over k, so they agree to the bit, in every
/// shape and with every stride.
TEST(SmallGemm, InstructionSetsAgreeToTheBit) {
  for_each_isa([] {
    for (std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25})
      for (std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 70})
        for (std::int64_t k : {0, 1, 10}) {
          const std::vector<float> a = floats(m * k + 1, 8), b = floats(k * (n + 3) + 1, 9);
          const std::vector<float> bias = floats(n, 10), before = floats(m * (n + 2), 11);
          std::vector<float> c = before;
          LOCKSTEP_CHOOSE(small_gemm)
          ({m, n, k, a.data(), 1, m, b.data(), n + 3, c.data(), n + 2, bias.data()}, true);
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n + 2; ++j) {
              float sum = j < n ? bias[std::size_t(j)] : 0;
              for (std::int64_t l = 0; j < n && l < k; ++l)
                sum = std::fma(a[std::size_t(l * m + i)], b[std::size_t(l * (n + 3) + j)], sum);
              const std::size_t at = std::size_t(i * (n + 2) + j);
              ASSERT_EQ(c[at], j < n ? before[at] + sum : before[at]) << m << " " << n << " " << k;
            }
        }
  });
}

/// Rows that end in a part of a block, sums long enough for C to be fetched ahead, and B as plain
/// rows and in panels.
TEST(SmallGemm, PanelsChangeNoBit) {
  for_each_isa([] {
    for (std::int64_t n : {1, 31, 32, 33, 65, 96}) {
      const std::int64_t m = 53, k = 70;
      const std::vector<float> a = floats(m * k, 8), b = floats(k * n, 9), bias = floats(n, 10);
      std::vector<float> transposed(b.size()), want, c(std::size_t(m * n));
      for (std::int64_t l = 0; l < k; ++l)
        for (std::int64_t j = 0; j < n; ++j)
          transposed[std::size_t(j * k + l)] = b[std::size_t(l * n + j)];
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          want.push_back(bias[std::size_t(j)]);
          for (std::int64_t l = 0; l < k; ++l)
            want.back() =
                std::fma(a[std::size_t(i * k + l)], b[std::size_t(l * n + j)], want.back());
        }
      std::vector<float> panels(std::size_t(cpu::panels_elems(k, n)), NAN);
      LOCKSTEP_CHOOSE(transpose_to_panels)(panels.data(), transposed.data(), k, n);
      cpu::SmallGemm g{.m = m,
                       .n = n,
                       .k = k,
                       .a = a.data(),
                       .a_row = k,
                       .b = b.data(),
                       .b_row = n,
                       .c = c.data(),
                       .c_row = n,
                       .bias = bias.data()};
      LOCKSTEP_CHOOSE(small_gemm)(g, false);
      EXPECT_EQ(c, want) << n;
      std::ranges::fill(c, NAN);
      g.b = panels.data();
      g.b_row = cpu::kPanel;
      g.b_panel = k * cpu::kPanel;
      LOCKSTEP_CHOOSE(small_gemm)(g, false);
      EXPECT_EQ(c, want) << n;
    }
  });
}

}  // namespace
}  // namespace lockstep::test

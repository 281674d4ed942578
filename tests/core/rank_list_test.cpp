// SPDX-License-Identifier: Apache-2.0
#include "core/base/rank_list.h"

#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace lockstep {
namespace {

std::vector<int> range(int first, int count, int step = 1) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

/// Eight ranks a host.
std::string host_of(int rank) { return "node" + std::to_string(rank / 8); }

TEST(RankList, FewAreNamedOneByOne) {
  EXPECT_EQ(format_ranks(std::vector{3}), "rank 3");
  EXPECT_EQ(format_ranks(std::vector{1, 3}), "ranks 1, 3");
  EXPECT_EQ(format_ranks(std::vector{0, 1}), "ranks 0, 1");
  EXPECT_EQ(format_ranks(std::vector{0, 1, 4, 5}), "ranks 0, 1, 4, 5");
}

TEST(RankList, ThreeInARowAreARange) {
  EXPECT_EQ(format_ranks(range(0, 3)), "ranks 0-2");
  std::vector<int> many = range(0, 4096);
  many.push_back(4100);
  EXPECT_EQ(format_ranks(many), "ranks 0-4095, 4100");
  EXPECT_EQ(format_ranks(std::vector{0, 2, 3, 4, 7, 8}), "ranks 0, 2-4, 7, 8");
}

TEST(RankList, WhatIsTooLongIsCounted) {
  EXPECT_EQ(format_ranks(range(0, 16, 2)),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30");
  const std::string text = format_ranks(range(0, 5000, 2));
  EXPECT_TRUE(text.ends_with(", 28, 30 and 4984 more")) << text;
}

TEST(RankList, ARangeIsOfOneHost) {
  EXPECT_EQ(format_ranks(std::vector{9}, host_of), "rank 9 (node1)");
  EXPECT_EQ(format_ranks(std::vector{2, 9}, host_of), "ranks 2 (node0), 9 (node1)");
  EXPECT_EQ(format_ranks(range(4, 8), host_of), "ranks 4-7 (node0), 8-11 (node1)");
  const std::string text = format_ranks(range(0, 10000), host_of);
  EXPECT_TRUE(text.ends_with(", 56-63 (node7) and 9936 more")) << text;
}

TEST(RankList, RanksOfAPlaceStandTogether) {
  const auto place = [](int rank) { return "on " + host_of(rank); };
  EXPECT_EQ(format_ranks_by_place(std::vector{3}, place), "rank 3 on node0");
  EXPECT_EQ(format_ranks_by_place(std::vector{3, 8, 9, 10, 12}, place),
            "rank 3 on node0, ranks 8-10, 12 on node1");
  const std::string text = format_ranks_by_place(range(0, 100), place);
  EXPECT_TRUE(text.ends_with(", ranks 56-63 on node7 and 36 more")) << text;
}

}  // namespace
}  // namespace lockstep

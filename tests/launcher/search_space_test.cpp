// SPDX-License-Identifier: Apache-2.0
#include "launcher/sweep/search_space.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(SearchSpace, ValuesHaveCommasOrBars) {
  EXPECT_THAT(parse_varied("lr=0.1,0.01").values, ElementsAre("0.1", "0.01"));
  const VariedSetting lists = parse_varied("--augment=flip,crop|flip");
  EXPECT_EQ(lists.name, "augment");
  EXPECT_THAT(lists.values, ElementsAre("flip,crop", "flip"));
  for (const char* bad : {"",
                          "=",
                          "lr",
                          "=1",
                          "--=1",
                          "lr=",
                          "lr=1,",
                          "lr=1,1",
                          "lr=log:1",
                          "lr=log:-1..1",
                          "lr=log:0..1",
                          "lr=uniform:2..1",
                          "lr=uniform:1..1",
                          "lr=uniform:a..b",
                          "lr=uniform:1..inf",
                          "lr=whole:1.5..3"})
    EXPECT_THROW(parse_varied(bad), ConfigError) << bad;
}

TEST(SearchSpace, AGridHasEveryCombinationOnce) {
  const std::vector<Configuration> all = grid_of({parse_varied("a=1,2"), parse_varied("b=x,y,z")});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_THAT(all[0], ElementsAre(Pair("a", "1"), Pair("b", "x")));
  EXPECT_THAT(all[4], ElementsAre(Pair("a", "2"), Pair("b", "y")));
  EXPECT_THROW(grid_of({parse_varied("a=uniform:1..2")}), ConfigError);
  VariedSetting many{.name = "n", .values = {}, .range = {}};
  for (int i = 0; i < 101; ++i) many.values.push_back(std::to_string(i));
  EXPECT_THROW(grid_of({many, many}), ConfigError);
}

// Of 4,000 draws the share of each half, decade or number is within five deviations,
// 5 sqrt(p (1 - p) / n), of what it should be.
TEST(SearchSpace, DrawsFollowTheirScale) {
  constexpr int kDraws = 4000;
  const std::vector<Configuration> all = draw_from({parse_varied("u=uniform:-1..3"),
                                                    parse_varied("l=log:1e-4..1"),
                                                    parse_varied("w=whole:2..5")},
                                                   kDraws,
                                                   7);
  double low = 0, decade = 0, three = 0;
  for (const Configuration& one : all) {
    const double u = std::stod(one[0].second), l = std::stod(one[1].second),
                 w = std::stod(one[2].second);
    EXPECT_TRUE(u >= -1 && u <= 3 && l >= 1e-4 && l <= 1 && w >= 2 && w <= 5)
        << configuration_text(one);
    low += u < 1;
    decade += l < 1e-3;
    three += w == 3;
  }
  const auto bound = [](double p) { return 5 * std::sqrt(p * (1 - p) / kDraws); };
  EXPECT_NEAR(low / kDraws, 0.5, bound(0.5));
  EXPECT_NEAR(decade / kDraws, 0.25, bound(0.25));
  EXPECT_NEAR(three / kDraws, 0.25, bound(0.25));
}

TEST(SearchSpace, RoundedNumbersStayInTheirRange) {
  for (const char* text : {"x=uniform:1234.5..1234.9",
                           "x=uniform:0..0.99999",
                           "x=uniform:100000..100050",
                           "x=log:0.99991..0.99999"}) {
    const VariedSetting setting = parse_varied(text);
    for (const Configuration& one : draw_from({setting}, 50, 3)) {
      const double value = std::stod(one[0].second);
      EXPECT_TRUE(value >= setting.range->least && value <= setting.range->most) << one[0].second;
    }
  }
}

TEST(SearchSpace, FewerDrawsComeFirstAndNoneTwice) {
  const std::vector<VariedSetting> varied{parse_varied("a=1,2,3"), parse_varied("b=1,2")};
  const std::vector<Configuration> six = draw_from(varied, 6, 0);
  EXPECT_EQ(std::set(six.begin(), six.end()).size(), 6u);
  const std::vector<Configuration> two = draw_from(varied, 2, 0);
  EXPECT_TRUE(std::equal(two.begin(), two.end(), six.begin()));
  EXPECT_THROW(draw_from(varied, 7, 0), ConfigError);
  const std::vector<VariedSetting> range{parse_varied("lr=uniform:0..1")};
  EXPECT_NE(draw_from(range, 3, 1), draw_from(range, 3, 2));
}

TEST(SearchSpace, FoldersAreDistinctAndPlain) {
  EXPECT_EQ(folder_of({{"lr", "1e-3"}, {"optimizer", "adamw"}}), "lr=1e-3_optimizer=adamw");
  const std::string slash = folder_of({{"data", "csv:a/b"}}),
                    dash = folder_of({{"data", "csv:a-b"}});
  EXPECT_NE(slash, dash);
  EXPECT_EQ(slash.find('/'), std::string::npos);
  EXPECT_LT(folder_of({{"group", std::string(500, 'x')}}).size(), 160u);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/suggest.h"

#include <array>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("mnist", "mnist"), 0);
  EXPECT_EQ(edit_distance("mnist", "MNIST"), 0);
  EXPECT_EQ(edit_distance("mnsit", "mnist"), 1);
  EXPECT_EQ(edit_distance("mist", "mnist"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Nearest, OffersWhatWasMeant) {
  constexpr std::array<std::string_view, 5> flags{
      "global-batch", "micro-batch", "model", "momentum", "min-lr"};
  EXPECT_EQ(nearest("global-bacth", flags), "global-batch");
  EXPECT_EQ(nearest("globalbatch", flags), "global-batch");
  EXPECT_EQ(nearest("modle", flags), "model");
  EXPECT_EQ(nearest("mom", flags), "momentum");
  EXPECT_EQ(nearest("Model", flags), "model");
}

TEST(Nearest, OffersNothingWhereNothingIsNear) {
  constexpr std::array<std::string_view, 3> kinds{"glyphs", "csv", "mnist"};
  EXPECT_EQ(nearest("imagenet-22k", kinds), "");
  EXPECT_EQ(nearest("", kinds), "");
  EXPECT_EQ(nearest("xyz", kinds), "");
  EXPECT_EQ(nearest("glyphs", {}), "");
}

}  // namespace
}  // namespace lockstep

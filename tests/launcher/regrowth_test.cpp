// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/regrowth.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Regrowth, IsDueWhenMissingRanksHaveCostWhatAStartCosts) {
  Regrowth growth;
  growth.begin(4, 100);
  EXPECT_FALSE(growth.is_due(1000)) << "all are there";
  growth.note_training(103);  // a start takes 3 s
  growth.note_training(500);
  growth.note_survivors(3, 1000);
  EXPECT_EQ(growth.ranks_now(), 3);
  EXPECT_EQ(growth.ranks_before(), 4);
  EXPECT_FALSE(growth.is_due(1011));  // 11 s, in which a quarter is missing
  EXPECT_TRUE(growth.is_due(1012));
}

TEST(Regrowth, SecondsOfSeveralDeathsAdd) {
  Regrowth growth;
  growth.begin(4, 0);
  growth.note_training(3);
  growth.note_survivors(3, 10);
  growth.note_survivors(1, 14);  // 1 s is lost
  EXPECT_FALSE(growth.is_due(16));
  EXPECT_TRUE(growth.is_due(17));
  growth.begin(4, 17);
  EXPECT_FALSE(growth.is_due(1000));
}

TEST(Regrowth, ADeathTellsThatRanksTrained) {
  Regrowth growth;
  growth.begin(2, 0);
  growth.note_survivors(1, 8);
  EXPECT_FALSE(growth.is_due(23));
  EXPECT_TRUE(growth.is_due(24));
}

}  // namespace
}  // namespace lockstep

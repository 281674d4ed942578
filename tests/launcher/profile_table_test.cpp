// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/profile_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProfileTable, SaysWhoseTimesTheseAre) {
  ProfileRecord record;
  EXPECT_THAT(profile_heading(record), ElementsAre(Not(HasSubstr("GPU"))));
  record.by_device = true;
  EXPECT_THAT(profile_heading(record), ElementsAre(HasSubstr("ms a step of the GPU's own time")));
}

TEST(ProfileTable, SaysWhyKernelsAreLongerThanTheRun) {
  ProfileRecord record;
  record.by_device = true;
  record.lines = {{.name = "conv2d", .share = 0.8}, {.name = "exchange", .share = 0.3}};
  EXPECT_THAT(profile_heading(record),
              ElementsAre(HasSubstr("profile of rank 0"),
                          AllOf(HasSubstr("110% of the run"), HasSubstr("several streams"))));
  record.lines[1].share = 0.2;
  EXPECT_EQ(profile_heading(record).size(), 1u);
}

TEST(ProfileTable, SaysWhatIsMissing) {
  ProfileRecord record;
  record.by_device = true;
  record.lost = 1234;
  record.dropped = 56789;
  EXPECT_THAT(profile_heading(record),
              ElementsAre(HasSubstr("profile of rank 0"),
                          AllOf(HasSubstr("1,234 of the GPU's records"), HasSubstr("too low")),
                          AllOf(HasSubstr("trace.json"), HasSubstr("56,789"))));
}

TEST(ProfileTable, IdleHasATimeAndAShareButNoRuns) {
  const std::vector<ProfileLine> lines{
      {.name = "conv2d", .seconds = 3, .share = 0.75, .runs_a_step = 2, .flops = 6e9, .bytes = 3e9},
      {.name = "idle", .seconds = 1, .share = 0.25}};
  const std::vector<std::string> table = profile_table(lines, 10);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_THAT(table[1], AllOf(HasSubstr(" 2.0 "), HasSubstr("300.0000"), HasSubstr("75.0%")));
  EXPECT_THAT(table[2], AllOf(HasSubstr("100.0000"), HasSubstr("25.0%"), Not(HasSubstr(" 0.0 "))));
}

}  // namespace
}  // namespace lockstep

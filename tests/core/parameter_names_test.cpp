// SPDX-License-Identifier: Apache-2.0
#include "core/base/parameter_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

std::string as_flag(std::string_view name) {
  return name == "unknown" ? std::string() : "--" + std::string(name);
}

struct FlagStyle {
  FlagStyle() { set_parameter_style(as_flag); }
  ~FlagStyle() { set_parameter_style(nullptr); }
};

TEST(ParameterNames, AreThoseOfTheLibraryUntilAToolSetsOthers) {
  EXPECT_EQ(name_parameters("use `lr` 0.1"), "use `lr` 0.1");
  const FlagStyle style;
  EXPECT_EQ(name_parameters("use `lr` 0.1 or `steps`"), "use --lr 0.1 or --steps");
  EXPECT_EQ(name_parameters("`unknown` and `lr`"), "`unknown` and --lr");
}

TEST(ParameterNames, OtherBackticksStay) {
  const FlagStyle style;
  for (const char* text : {"", "`", "``", "a `b", "`two words`", "file `A.txt`"})
    EXPECT_EQ(name_parameters(text), text);
  EXPECT_EQ(name_parameters("a ` and `lr`"), "a ` and --lr");
}

TEST(ParameterNames, AQuotedTextStaysAsItWasWritten) {
  const auto said = [](const std::string& text) {
    return name_parameters("`lr`: '" + as_written(text) + "', `lr`");
  };
  const std::string texts[] = {"", "`lr`", "x`lr`y", "`", "``lr``", "\x1a`lr`", "`steps"};
  for (const std::string& text : texts) EXPECT_EQ(said(text), "`lr`: '" + text + "', `lr`");
  const FlagStyle style;
  for (const std::string& text : texts) EXPECT_EQ(said(text), "--lr: '" + text + "', --lr");
  const ConfigError error("`lr`: '" + as_written("`steps`") + "'");
  EXPECT_THAT(error.parameters(), ::testing::ElementsAre("lr"));
}

TEST(ParameterNames, AnErrorListsThoseThatItNames) {
  const ConfigError error("`micro_batch` 9 is larger than `global_batch` 8", "lower `micro_batch`");
  EXPECT_THAT(error.parameters(), ::testing::ElementsAre("micro_batch", "global_batch"));
  const FlagStyle style;
  const ConfigError named("`lr` is 0", "raise `lr`");
  EXPECT_STREQ(named.what(), "--lr is 0");
  EXPECT_EQ(named.hint(), "raise --lr");
}

}  // namespace
}  // namespace lockstep

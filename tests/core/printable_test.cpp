// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/printable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "core/base/text/utf8.h"

namespace lockstep {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Printable, TextStaysAsItIs) {
  for (const char* text : {"", "a b", "Größe 12 µm", "日本語", "C:\\data\\1.png", "🦊"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, NoControlReachesATerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable(std::string("nul\0!", 5)), "nul\\0!");
  EXPECT_EQ(printable("two\nlines\r\tand"), "two\\nlines\\r\\tand");
  EXPECT_EQ(printable("\x7f\xc2\x9b"
                      "31m"),
            "\\x7f\\x9b31m")
      << "a C1 control begins sequences too";
  EXPECT_EQ(printable("gpj.\xe2\x80\xae"
                      "exe"),
            "gpj.\\u202eexe");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  std::string all;
  for (int c = 0; c < 256; ++c) all += char(c);
  for (const unsigned char c : printable(all, 1000)) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << int(c);
}

TEST(Printable, OfLongTextTheMiddleIsMissingAndItsLengthSaid) {
  const std::string shown = printable("begin" + std::string(1'000'000, 'x') + "end");
  EXPECT_LT(shown.size(), 300u);
  EXPECT_THAT(shown, StartsWith("beginx"));
  EXPECT_THAT(shown, EndsWith("xend"));
  EXPECT_THAT(shown, HasSubstr("1000008 bytes"));
}

TEST(Printable, NoCharacterIsCutInHalf) {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'x');
    for (int i = 0; i < 500; ++i) text += "日";
    EXPECT_TRUE(is_utf8(printable(text))) << before;
    EXPECT_THAT(printable(text), ::testing::Not(HasSubstr("\\x"))) << before;
  }
}

TEST(Printable, OfALongNameTheStartFitsItsColumn) {
  EXPECT_EQ(printable_start("short", 5), "short");
  EXPECT_EQ(printable_start("too long", 5), "too l...");
  EXPECT_EQ(printable_start("日本語日本語", 4), "日本語日...");
  EXPECT_EQ(printable_start("\x1b[2J", 2), "\\x1b[...");
  EXPECT_EQ(printable_start("", 0), "");
}

TEST(Printable, LinesStayLines) {
  EXPECT_EQ(printable_lines("a\tb\n\x1b]0;title\x07\n\nend\n"),
            "a\tb\n\\x1b]0;title\\x07\n\nend\n");
  EXPECT_EQ(printable_lines("no newline"), "no newline");
  const std::string long_line = std::string(100'000, 'y') + "\nshort";
  const std::string shown = printable_lines(long_line);
  EXPECT_LT(shown.size(), 2'200u);
  EXPECT_THAT(shown, EndsWith("\nshort"));
}

}  // namespace
}  // namespace lockstep

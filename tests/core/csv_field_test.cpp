// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/csv_field.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CsvField, ASpreadsheetSeesNoFormula) {
  EXPECT_EQ(csv_name("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
  EXPECT_EQ(csv_name("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_name("+1+cmd"), "'+1+cmd");
  EXPECT_EQ(csv_name("-2-3"), "'-2-3");
  EXPECT_EQ(csv_name("\t=1"), "'\t=1");
  EXPECT_EQ(csv_name("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(csv_name("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
}

TEST(CsvField, NumbersAndOrdinaryTextStayAsTheyAre) {
  for (const char* text : {"", "-1.5", "+3", "-1e-9", "runs/a", "a=b", "cat"})
    EXPECT_EQ(csv_name(text), text);
}

TEST(CsvField, WhatWouldEndAFieldIsQuoted) {
  EXPECT_EQ(csv_name("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_name("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csv_name("6\" disk"), "\"6\"\" disk\"");
  EXPECT_EQ(quoted_csv_field("6\""), "\"6\"\"\"");
  EXPECT_EQ(csv_field("=a"), "=a");
  EXPECT_EQ(csv_field("=,"), "\"=,\"");
}

}  // namespace
}  // namespace lockstep

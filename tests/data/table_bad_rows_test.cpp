// SPDX-License-Identifier: Apache-2.0
// Rows of a table that cannot be read: skipped, they are as if the table did not have them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/data/table/bad_rows.h"
#include "core/data/table/table_inputs.h"
#include "tests/data/table_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class BadRowsTest : public TableFixture {
 protected:
  /// Both parts of `text`, its bad rows skipped, have to be those of `clean`.
  void expect_as(const std::string& clean,
                 const std::string& text,
                 std::int64_t skipped,
                 TableOptions options = {}) const {
    const DataSplit expected = csv(write("clean.csv", clean), options, 0.25, 3);
    options.skips_bad_rows = true;
    const DataSplit split = csv(write("table.csv", text), options, 0.25, 3);
    EXPECT_EQ(split.train->fingerprint(), expected.train->fingerprint());
    EXPECT_EQ(split.validation->fingerprint(), expected.validation->fingerprint());
    EXPECT_EQ(io::to_json(split.train->preprocessing()),
              io::to_json(expected.train->preprocessing()));
    EXPECT_EQ(split.train->skipped_records().count, skipped);
    // The validation part is found again, by the record alone.
    const Preprocessing trained = kept(*split.train);
    const DataSplit again = csv(path("table.csv"), options, 0.25, 3, &trained);
    EXPECT_EQ(again.validation->fingerprint(), expected.validation->fingerprint());
    EXPECT_EQ(again.validation->skipped_records().count, skipped);
  }
};

/// Rows of a number, a text and a class.
std::string good_rows(int count) {
  std::string text;
  for (int row = 0; row < count; ++row)
    text += fmt::format("{},{},{}\n", row, row % 3 == 0 ? "red" : "blue", row % 2 == 0 ? "x" : "y");
  return text;
}

const std::string kHeader = "a,t,k\n";

TEST_F(BadRowsTest, AreSkippedAsIfTheTableDidNotHaveThem) {
  const std::string clean = kHeader + good_rows(10) + good_rows(30);
  for (const char* bad : {"1,red\n",
                          "1,red,x,\n",
                          "\n",
                          "oops,red,x\n",
                          "inf,red,x\n",
                          "1e400,red,x\n",
                          "1,red,\n",
                          "1,,x\n",
                          ",red,y\n",
                          "\"1\"2,red,x\n",
                          "1,\xFF,x\n",
                          // A category and a class of their own, which must not be kept.
                          "oops,green,z\n",
                          "1,green,\n",
                          "1,M\xFC,z\n"})
    expect_as(clean, kHeader + good_rows(10) + bad + good_rows(30), 1);
  expect_as(clean, kHeader + "x,red,x\n" + good_rows(10) + "1\n2\n" + good_rows(30) + "3,\n", 4);
}

TEST_F(BadRowsTest, DoNotDecideWhatColumnsAre) {
  // They are bad by their first field; the others would make texts of numbers, amounts of classes.
  std::string clean = "a,b,k\n", text = clean;
  for (int row = 0; row < 40; ++row) {
    const std::string good = fmt::format("{},{},{}\n", row, row % 7, row % 2);
    clean += good;
    text += good;
    if (row % 16 == 0) text += "oops,q,0.5\n";
  }
  expect_as(clean, text, 3);
}

TEST_F(BadRowsTest, StrayTextsAreBadRows) {
  const std::string clean = "a,b,k\n" + good_rows(0);
  std::string rows, with;
  for (int row = 0; row < 40; ++row) {
    rows += fmt::format("{},{},{}\n", row, row % 5, row % 2);
    with += fmt::format("{},{},{}\n", row, row % 5, row % 2);
    if (row == 7) with += "3,n/a,1\n";
    if (row == 20) with += "call,3,0\n";
  }
  expect_as(clean + rows, clean + with, 2);
}

TEST_F(BadRowsTest, StrayTextsAmongAmountsAreBadRows) {
  std::string clean = "a,price\n", text = clean, labels = "a,cat,dog\n", bad = labels;
  for (int row = 0; row < 40; ++row) {
    clean += fmt::format("{},{}.5\n", row, row % 9);
    text += fmt::format("{},{}.5\n", row, row % 9) + (row == 30 ? "3,call\n" : "");
    labels += fmt::format("{},{},{}\n", row, row % 2, row % 3 / 2);
    bad += fmt::format("{},{},{}\n", row, row % 2, row % 3 / 2) + (row == 30 ? "3,1,maybe\n" : "");
  }
  expect_as(clean, text, 1);
  expect_as(labels, bad, 1, {.label_columns = {"cat", "dog"}});
}

TEST_F(BadRowsTest, NumbersThatStandardisationCannotHoldAreBadRows) {
  std::string clean = "a,k\n";
  for (int row = 0; row < 20; ++row) clean += fmt::format("7,{}\n", row % 2);
  // In the training part of some splits, and the validation part of others.
  const std::string text = clean + "1e300,1\n";
  int skipped = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const DataSplit split = csv(write("t.csv", text), {.skips_bad_rows = true}, 0.25, seed);
    if (split.train->skipped_records().count == 0) continue;
    ++skipped;
    const DataSplit expected = csv(write("clean.csv", clean), 0.25, seed);
    EXPECT_EQ(split.train->fingerprint(), expected.train->fingerprint());
    const Preprocessing trained = kept(*split.train);
    const DataSplit again = csv(path("t.csv"), {.skips_bad_rows = true}, 0.25, seed, &trained);
    EXPECT_EQ(again.validation->fingerprint(), expected.validation->fingerprint());
  }
  EXPECT_GT(skipped, 0);
}

TEST_F(BadRowsTest, AreNamedAndCounted) {
  std::string text = kHeader + good_rows(5) + "oops,red,x\n1\n" + good_rows(5);
  const auto table = train(text, {.skips_bad_rows = true});
  const SkippedRecords skipped = table->skipped_records();
  EXPECT_EQ(skipped.count, 2);
  EXPECT_THAT(skipped.first,
              ElementsAre(HasSubstr("table.csv:7:1: expected a finite number, got 'oops'"),
                          HasSubstr("table.csv:8: expected 3 fields")));
  EXPECT_THAT(table->describe(), HasSubstr("2 rows"));
  EXPECT_EQ(train(kHeader + good_rows(5), {.skips_bad_rows = true})->skipped_records().count, 0);
  for (int row = 0; row < 50; ++row) text += "1\n";
  const SkippedRecords many = train(text, {.skips_bad_rows = true})->skipped_records();
  EXPECT_EQ(many.count, 52);
  EXPECT_THAT(many.first, SizeIs(SkippedRecords::kMaxNamed));
}

TEST_F(BadRowsTest, WithoutTheFlagAreNamedWithAWayOut) {
  const std::string bad = kHeader + good_rows(5) + "1,red\n" + good_rows(5);
  const auto table = train(kHeader + good_rows(10));
  const Preprocessing trained = kept(*table);
  for (const std::string& refused : {refusal<DataError>(bad), evaluation_refusal(bad, trained)})
    EXPECT_THAT(refused, AllOf(HasSubstr(".csv:7: "), HasSubstr("`skip_bad_samples`")));
  EXPECT_THAT(evaluation_refusal(kHeader + "1,pink,x\n", trained),
              AllOf(HasSubstr("other.csv:2:2: "), HasSubstr("`skip_bad_samples`")));
}

TEST_F(BadRowsTest, OfATableToEvaluateOnAreSkipped) {
  const Preprocessing trained = kept(*train(kHeader + good_rows(20)));
  const auto clean = evaluate(kHeader + good_rows(8), trained);
  // Each that predict would name.
  const std::string text =
      kHeader + "1,pink,x\n" + good_rows(8) + "oops,red,x\n1,red,z\n1e300,red,x\n,red,x\n";
  const auto other = evaluate(text, trained, {.skips_bad_rows = true});
  EXPECT_EQ(other->fingerprint(), clean->fingerprint());
  EXPECT_EQ(other->skipped_records().count, 5);
  EXPECT_THAT(other->describe(), HasSubstr("5 rows"));
}

TEST_F(BadRowsTest, AllRowsOrWholeColumnsAreNotSkipped) {
  const TableOptions skips{.skips_bad_rows = true};
  EXPECT_THAT(refusal<DataError>(kHeader + "1\n2\n", skips),
              AllOf(HasSubstr("2 rows"), HasSubstr("table.csv:2: ")));
  EXPECT_THAT(refusal<DataError>(kHeader + "p,q\n,red,x\n", skips), HasSubstr("table.csv:2: "));
  std::string names = "a,name,k\n";
  for (int row = 0; row < 1001; ++row) names += fmt::format("1,n{},{}\n", row, row % 2);
  EXPECT_THAT(refusal<DataError>(names, skips), HasSubstr("at most 1000 different texts"));
  std::string wrong = kHeader;
  for (std::size_t row = 0; row <= kMaxBadRows; ++row) wrong += "1\n";
  EXPECT_THAT(refusal<DataError>(wrong, skips), HasSubstr("more than 100000 rows"));
}

TEST_F(BadRowsTest, AQuoteThatDoesNotCloseEndsWithItsLine) {
  const Preprocessing trained = kept(*train("a,b,k\n1,2,x\n3,4,y\n"));
  const TableInputs inputs =
      read_table_inputs("x", "a,b\n\"1\"2,3\n3,4\n\"5,6\n7,8\n9\n1,2", trained);
  EXPECT_THAT(inputs.lines, ElementsAre(3, 5, 7));
  ASSERT_THAT(inputs.bad, SizeIs(3));
  EXPECT_EQ(inputs.bad[0].line, 2);
  EXPECT_EQ(inputs.bad[1].line, 4);
  EXPECT_THAT(inputs.bad[1].reason, HasSubstr("closing quote"));
  EXPECT_EQ(inputs.bad[2].line, 6);
  EXPECT_THAT(error_of<DataError>([&] { csv(write("t.csv", "a,k\n1,x\n2,\"x\n3,y\n")); }),
              HasSubstr("t.csv:3:2: expected a closing quote, got the end of the file"));
}

TEST_F(BadRowsTest, AQuoteThatTakesInRowsGivesThemBack) {
  const Preprocessing trained = kept(*train("a,b,k\n1,2,x\n3,4,y\n"));
  // It closes at the quote that opens in line 5.
  const TableInputs back = read_table_inputs("x", "a,b\n\"1,2\n3,4\n5,6\n\"7\",8\n9,1\n", trained);
  EXPECT_THAT(back.lines, ElementsAre(3, 4, 5, 6));
  ASSERT_THAT(back.bad, SizeIs(1));
  EXPECT_THAT(back.bad[0].reason, HasSubstr("in line 5"));
  // What follows is not a row: a text of several lines with a quote too many.
  const TableInputs text =
      read_table_inputs("x", "a,b\n1,\"he said\nthat \"it\" is\"\n3,4\n", trained);
  EXPECT_THAT(text.lines, ElementsAre(4));
  ASSERT_THAT(text.bad, SizeIs(1));
  EXPECT_EQ(text.bad[0].line, 2);
  EXPECT_THAT(text.bad[0].reason, HasSubstr("lines 2 to 3"));
  // Closed quotes leave no doubt, but the message says what they took in.
  const TableInputs closed = read_table_inputs("x", "a,b\n1,\"2\n3,4\n5,\",6\n7,8\n", trained);
  EXPECT_THAT(closed.lines, ElementsAre(5));
  ASSERT_THAT(closed.bad, SizeIs(1));
  EXPECT_THAT(closed.bad[0].reason, HasSubstr("lines 2 to 4"));
}

TEST_F(BadRowsTest, ManyWrongQuotesAreReadInOnePass) {
  const Preprocessing trained = kept(*train("a,b,k\n1,2,x\n3,4,y\n"));
  std::string text = "a,b\n";
  for (int row = 0; row < 20000; ++row) text += "\"1,2\n3,4\n";
  const TableInputs inputs = read_table_inputs("x", text, trained);
  EXPECT_THAT(inputs.lines, SizeIs(20000));
  EXPECT_THAT(inputs.bad, SizeIs(20000));
}

}  // namespace
}  // namespace lockstep::data

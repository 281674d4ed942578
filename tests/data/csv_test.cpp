// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <set>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const TableOptions kClasses{.task = Task::classification};

class Csv : public DataFixture {
 protected:
  std::string error(const std::string& content) const {
    const std::string file = write("table.csv", content);
    return error_of<DataError>([&] { csv(file); });
  }
};

TEST_F(Csv, StandardisesFeaturesAndNumbersClassesByName) {
  const DataSplit split = csv(write("t.csv", "a,b,kind\n1,7,pear\n3,7,apple\n5,7,pear\n"));
  EXPECT_EQ(split.validation, nullptr);
  const Dataset& train = *split.train;
  EXPECT_EQ(train.size(), 3);
  EXPECT_EQ(train.spec().classes, 2);
  EXPECT_EQ(train.spec().input.to_string(), "f32[2]");
  EXPECT_EQ(train.spec().target.to_string(), "i32[]");
  EXPECT_TRUE(train.spec().scale.empty());
  // Mean 3, deviation sqrt(8/3); the constant feature keeps deviation 1.
  const float low = float(-2 / std::sqrt(8.0 / 3.0));
  EXPECT_FLOAT_EQ(features_of(train, 0)[0], low);
  EXPECT_FLOAT_EQ(features_of(train, 1)[0], 0.0f);
  EXPECT_FLOAT_EQ(features_of(train, 2)[0], -low);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(features_of(train, i)[1], 0.0f);
  EXPECT_EQ(label_of(train, 0, 0), 1);
  EXPECT_EQ(label_of(train, 0, 1), 0);
  EXPECT_EQ(label_of(train, 0, 2), 1);
}

TEST_F(Csv, ConstantFractionIsConstantInSpiteOfRounding) {
  const DataSplit split =
      csv(write("t.csv", "a,k\n0.1,x\n0.1,y\n0.1,x\n0.1,y\n0.1,x\n0.1,y\n0.1,x\n"));
  for (int i = 0; i < 7; ++i) EXPECT_NEAR(features_of(*split.train, i)[0], 0.0f, 1e-15f);
}

TEST_F(Csv, ReadsWindowsLinesQuotesSpacesAndByteOrderMark) {
  const DataSplit plain = csv(write("a.csv", "a,b,k\n1,-2e1,x y\n3,.5,\"z\"\n"));
  const DataSplit other = csv(write("b.csv",
                                    "\xEF\xBB\xBF\"a\" , b,\"k, \"\"quoted\"\"\"\r\n \"1\",-20.0 "
                                    ",\"x y\"\r\n+3, 0.5,z\r\n\r\n \n"));
  ASSERT_EQ(other.train->size(), 2);
  EXPECT_EQ(other.train->fingerprint(), plain.train->fingerprint());
}

TEST_F(Csv, NumericLabelsSortByValue) {
  const DataSplit split = csv(write("t.csv", "a,k\n1,10\n2,9\n3,-1\n4,9.0\n"), kClasses);
  EXPECT_EQ(split.train->spec().classes, 3);
  EXPECT_EQ(label_of(*split.train, 0, 0), 2);
  EXPECT_EQ(label_of(*split.train, 0, 1), 1);
  EXPECT_EQ(label_of(*split.train, 0, 2), 0);
  EXPECT_EQ(label_of(*split.train, 0, 3), 1);
}

TEST_F(Csv, LargeWholeNumbersAreDifferentLabels) {
  const DataSplit split =
      csv(write("t.csv", "a,k\n1,9007199254740993\n2,9007199254740992\n3,+5\n"), kClasses);
  EXPECT_EQ(split.train->spec().classes, 3);
  EXPECT_EQ(label_of(*split.train, 0, 0), 2);
  EXPECT_EQ(label_of(*split.train, 0, 1), 1);
  EXPECT_EQ(label_of(*split.train, 0, 2), 0);
  EXPECT_THAT(error("a,k\n1,1e16\n2,x\n"), HasSubstr("whole number, got '1e16'"));
  EXPECT_THAT(error("a,k\n1,99999999999999999999\n2,x\n"), HasSubstr(":2:2: expected a class"));
}

TEST_F(Csv, StandardisesTheLargestAndSmallestNumbers) {
  for (const char* exponent : {"e300", "e200", "e0", "e-200", "e-310"}) {
    const DataSplit split =
        csv(write("t.csv", fmt::format("a,k\n1{0},x\n3{0},y\n5{0},x\n", exponent)));
    // Subnormal numbers of 1e-310 have 45 bits.
    const float low = float(-2 / std::sqrt(8.0 / 3.0));
    EXPECT_FLOAT_EQ(features_of(*split.train, 0)[0], low) << exponent;
    EXPECT_NEAR(features_of(*split.train, 1)[0], 0.0f, 1e-12f) << exponent;
    EXPECT_FLOAT_EQ(features_of(*split.train, 2)[0], -low) << exponent;
  }
}

TEST_F(Csv, RefusesFeaturesThatStandardisationCannotHold) {
  EXPECT_THAT(error("a,b,k\n1,-1.7e308,x\n1,1.7e308,y\n1,1.7e308,y\n"),
              AllOf(HasSubstr("table.csv:2:2: expected"), HasSubstr("(column 'b'")));
  // Constant in the training part, far away in the validation part, whatever the seed.
  std::string text = "a,k\n";
  for (int row = 0; row < 9; ++row) text += fmt::format("{},{}\n", 0, row % 2);
  text += "1e300,x\n";
  const std::string file = write("far.csv", text);
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    refused += error_of<DataError>([&] { csv(file, 0.1, seed); }).find("far.csv:11:1:") !=
               std::string::npos;
  EXPECT_GT(refused, 0);
}

std::string counting(int rows) {
  std::string text = "a,k\n";
  for (int i = 0; i < rows; ++i) text += fmt::format("{},{}\n", i, i % 2);
  return text;
}

TEST_F(Csv, SplitsBySeedAndStandardisesOnTheTrainingPart) {
  const std::string file = write("t.csv", counting(100));
  const DataSplit split = csv(file, 0.2, 1), again = csv(file, 0.2, 1), other = csv(file, 0.2, 2);
  EXPECT_EQ(split.train->size(), 80);
  EXPECT_EQ(split.validation->size(), 20);
  EXPECT_EQ(split.validation->fingerprint(), again.validation->fingerprint());
  EXPECT_NE(split.validation->fingerprint(), other.validation->fingerprint());
  double sum = 0, squares = 0;
  std::set<float> values;
  for (int i = 0; i < 80; ++i) {
    const float x = features_of(*split.train, i)[0];
    values.insert(x);
    sum += double(x);
    squares += double(x) * double(x);
  }
  for (int i = 0; i < 20; ++i) values.insert(features_of(*split.validation, i)[0]);
  EXPECT_EQ(values.size(), 100u);
  // Each value is rounded to float: eps times at most 2 deviations, times a count of 80.
  EXPECT_NEAR(sum, 0.0, 80 * 2 * 6e-8);
  EXPECT_NEAR(squares, 80.0, 80 * 4 * 1.2e-7);
}

TEST_F(Csv, RefusesAFractionThatLeavesAPartEmpty) {
  const std::string file = write("t.csv", counting(4));
  EXPECT_THAT(error_of<ConfigError>([&] { csv(file, 1.0); }), HasSubstr("below 1, got 1"));
  EXPECT_THAT(error_of<ConfigError>([&] { csv(file, -0.5); }), HasSubstr("at least 0"));
  EXPECT_THAT(error_of<ConfigError>([&] { csv(file, std::nan("")); }), HasSubstr("got nan"));
  EXPECT_THAT(error_of<ConfigError>([&] { csv(file, 0.01); }),
              HasSubstr("leaves the validation part"));
  EXPECT_THAT(error_of<ConfigError>([&] { csv(file, 0.99); }),
              HasSubstr("leaves the training part"));
}

TEST_F(Csv, FeaturesMustBeFiniteNumbers) {
  EXPECT_THAT(
      error("a,b,k\n1,2,x\n3,NaN,y\n"),
      HasSubstr(
          "table.csv:3:2: expected a finite number, got 'NaN', a missing value (column 'b')"));
  EXPECT_THAT(error("a,b,k\n-inf,2,x\n"), HasSubstr(":2:1: expected a finite number, got '-inf'"));
  EXPECT_THAT(error("a,b,k\n1e999,2,x\n"),
              HasSubstr(":2:1: expected a finite number, got '1e999'"));
  EXPECT_THAT(error("a,b,k\n,2,x\n"),
              HasSubstr(":2:1: expected a finite number, got an empty field"));
}

TEST_F(Csv, RowsMustHaveTheHeadersFields) {
  EXPECT_THAT(error("a,b,k\n1,2,x\n1,2\n"),
              HasSubstr("table.csv:3: expected 3 fields as in the header, got 2"));
  EXPECT_THAT(error("a,b,k\n1,2,x,\n"), HasSubstr(":2: expected 3 fields as in the header, got 4"));
  EXPECT_THAT(error("a,b,k\n1,2,x\n\n1,2,y\n"),
              HasSubstr(":3: expected 3 fields as in the header, got an empty line"));
}

TEST_F(Csv, LabelsMustBeThereAndNameClasses) {
  EXPECT_THAT(error("a,k\n1,x\n2,\n"),
              HasSubstr(":3:2: expected a class name or number, got an empty field"));
  EXPECT_THAT(error("a,k\n1,nan\n"),
              HasSubstr(":2:2: expected a class name or whole number, got 'nan'"));
  const std::string decimal = write("decimal.csv", "a,k\n1,0.25\n");
  EXPECT_THAT(error_of<DataError>([&] { csv(decimal, kClasses); }),
              HasSubstr(":2:2: expected a class name or whole number, got '0.25'"));
  EXPECT_THAT(error("a,k\n1,x\n2,x\n"),
              HasSubstr("at least 2 classes in the last column ('k'), got only 'x'"));
  EXPECT_THAT(error("a,k\n1,1\n2,1.0\n"), HasSubstr("at least 2 classes"));
}

TEST_F(Csv, FileMustHaveHeaderAndSamples) {
  EXPECT_THAT(error(""), HasSubstr("table.csv: the file is empty | a header line"));
  EXPECT_THAT(error(" \r\n\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(error("a,b,k\n"), HasSubstr("table.csv: expected samples, got only a header line"));
  EXPECT_THAT(error("label\nx\n"),
              HasSubstr("table.csv:1: expected at least one feature and the class"));
  EXPECT_THAT(error("5.1,3.5,setosa\n4.9,3.0,setosa\n"),
              HasSubstr("table.csv:1: expected a header line"));
}

TEST_F(Csv, QuotesMustClose) {
  EXPECT_THAT(error("a,k\n1,\"x\n2,y\n"),
              HasSubstr(":2:2: expected a closing quote, got the end of the file"));
  EXPECT_THAT(error("a,k\n1,\"x\"y\n"),
              HasSubstr(":2:2: expected a comma after the closing quote, got 'y'"));
}

TEST_F(Csv, BinaryFilesAreRefused) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += char(i * 37);
  EXPECT_THAT(error(bytes), HasSubstr("table.csv"));
}

TEST_F(Csv, FileMustBeReadable) {
  EXPECT_THAT(error_of<DataError>([&] { csv(path("absent.csv")); }),
              HasSubstr("absent.csv: no such file"));
  EXPECT_THAT(error_of<DataError>([&] { csv(folder_); }),
              HasSubstr("expected a file, got a folder"));
  EXPECT_THAT(error_of<DataError>([&] { csv("/dev/zero"); }), HasSubstr("expected a regular file"));
}

TEST_F(Csv, BatchesEqualSingleSamples) {
  for (const int features : {1, 3, 4, 9, 70}) {
    std::string text;
    for (int f = 0; f < features; ++f) text += fmt::format("f{},", f);
    text += "k\n";
    for (int row = 0; row < 5; ++row) {
      for (int f = 0; f < features; ++f) text += fmt::format("{},", row * row * (f + 1) % 17);
      text += fmt::format("{}\n", row % 2);
    }
    const auto train = csv(write("t.csv", text)).train;
    const std::vector<std::int64_t> indices{4, 0, 0, 2};
    const std::size_t row_bytes = train->spec().input.bytes();
    std::vector<std::byte> input(4 * row_bytes), target(4 * 4);
    train->load_batch(0, indices, input.data(), target.data());
    for (std::size_t i = 0; i < 4; ++i) {
      const auto expected = sample_bytes(*train, 0, indices[i]);
      EXPECT_EQ(std::memcmp(input.data() + i * row_bytes, expected.data(), row_bytes), 0);
      EXPECT_EQ(std::memcmp(target.data() + i * 4, expected.data() + row_bytes, 4), 0);
      EXPECT_EQ(features_of(*train, indices[i]).size(), std::size_t(features));
    }
  }
}

}  // namespace
}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

class Cifar10 : public DataFixture {
 protected:
  /// Records whose red, green and blue begin with `first`, `first` + 1 and `first` + 2.
  static std::string records(int count, int label, int first) {
    std::string file;
    for (int i = 0; i < count; ++i) {
      std::string record(3073, '\0');
      record[0] = char(label);
      for (int c = 0; c < 3; ++c) record[std::size_t(1 + 1024 * c)] = char(first + c);
      record[3072] = char(i);
      file += record;
    }
    return file;
  }
  void write_all() {
    for (int i = 1; i <= 5; ++i)
      write("data_batch_" + std::to_string(i) + ".bin", records(2, i, 10 * i));
    write("test_batch.bin", records(3, 9, 100));
  }
  std::string error() {
    return error_of<DataError>([&] { cifar10(folder_); });
  }
};

TEST_F(Cifar10, ReadsPlanesAsPixels) {
  write_all();
  const DataSplit split = cifar10(folder_);
  EXPECT_EQ(split.train->size(), 10);
  EXPECT_EQ(split.validation->size(), 3);
  EXPECT_EQ(split.train->spec().input.to_string(), "u8[32, 32, 3]");
  const auto bytes = sample_bytes(*split.train, 0, 5);  // the second of data_batch_3
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 30);
  EXPECT_EQ(std::to_integer<int>(bytes[1]), 31);
  EXPECT_EQ(std::to_integer<int>(bytes[2]), 32);
  EXPECT_EQ(std::to_integer<int>(bytes[3071]), 1);
  EXPECT_EQ(label_of(*split.train, 0, 5), 3);
  EXPECT_EQ(label_of(*split.validation, 0, 2), 9);
}

TEST_F(Cifar10, NamesFileAndRecordOfWhatIsWrong) {
  EXPECT_THAT(error(), HasSubstr("data_batch_1.bin: no such file | expected the binary version"));
  write_all();
  write("data_batch_4.bin", records(2, 4, 0) + "xyz");
  EXPECT_THAT(error(),
              HasSubstr("data_batch_4.bin: expected records of 3073 bytes, got 6149 bytes, "
                        "which is 2 records and 3 bytes"));
  write("data_batch_4.bin", "");
  EXPECT_THAT(error(), HasSubstr("data_batch_4.bin: expected records of 3073 bytes, got 0"));
  write("data_batch_4.bin", records(1, 4, 0) + records(1, 10, 0));
  EXPECT_THAT(error(),
              HasSubstr("data_batch_4.bin: expected a label of 0 to 9 at byte 3073, record "
                        "1, got 10"));
  EXPECT_THAT(error_of<DataError>([&] { cifar10(path("none")); }), HasSubstr("no such folder"));
}

TEST(Synthetic, IsNewEveryEpochAndTheSameEveryTime) {
  const DataSplit split = synthetic({.height = 8, .width = 6, .channels = 3, .classes = 5}, 1);
  EXPECT_EQ(split.validation, nullptr);
  EXPECT_EQ(split.train->spec().input.to_string(), "u8[8, 6, 3]");
  EXPECT_EQ(split.train->spec().classes, 5);
  const auto bytes = sample_bytes(*split.train, 1, 2);
  EXPECT_EQ(bytes, sample_bytes(*synthetic({8, 6, 3, 5}, 1).train, 1, 2));
  EXPECT_NE(bytes, sample_bytes(*split.train, 2, 2));
  EXPECT_NE(bytes, sample_bytes(*split.train, 1, 3));
  EXPECT_NE(bytes, sample_bytes(*synthetic({8, 6, 3, 5}, 2).train, 1, 2));
  std::vector<int> counts(5);
  for (int i = 0; i < 1000; ++i) ++counts.at(std::size_t(label_of(*split.train, 0, i)));
  for (const int count : counts) EXPECT_GT(count, 130);  // 200 with a deviation of 13
}

TEST(Synthetic, IsOpenedByItsShape) {
  EXPECT_EQ(open("synthetic").train->spec().input.to_string(), "u8[224, 224, 3]");
  EXPECT_EQ(open("synthetic").train->spec().classes, 1000);
  EXPECT_EQ(open("synthetic:32x16x1").train->spec().input.to_string(), "u8[32, 16, 1]");
  EXPECT_EQ(open("synthetic:32x32x3:10").train->spec().classes, 10);
  for (const char* text : {"synthetic:",
                           "synthetic:32",
                           "synthetic:32x32",
                           "synthetic:32x32x3:",
                           "synthetic:32x32x3:10x",
                           "synthetic:ax2x3"})
    EXPECT_THAT(error_of<ConfigError>([&] { open(text); }),
                HasSubstr("expected synthetic[:HxWxC[:CLASSES]], got"));
  for (const char* text : {"synthetic:0x2x3",
                           "synthetic:-1x2x3",
                           "synthetic:2x2x3:0",
                           "synthetic:4000000000x4000000000x4000000000"})
    EXPECT_THAT(error_of<ConfigError>([&] { open(text); }), HasSubstr("expected extents"));
}

}  // namespace
}  // namespace lockstep::data

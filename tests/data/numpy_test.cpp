// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/data/arrays/array_inputs.h"
#include "core/data/arrays/npy_array.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"
#include "tests/support/npy_files.h"

namespace lockstep::data {
namespace {

using test::npy_file;
using test::npy_of;
using test::zip_file;
using testing::AllOf;
using testing::HasSubstr;

const std::string kNumpyGoldens = LOCKSTEP_SOURCE_DIR "/tests/data/numpy_goldens/";

std::vector<double> numbers_of(const NpyArray& array) {
  std::vector<double> numbers(std::size_t(array.rows() * array.row_elems()));
  array.read_numbers(0, array.rows(), std::span(numbers));
  return numbers;
}

class Numpy : public DataFixture {
 protected:
  static std::string bytes_of(int count, int period = 251) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += char(i % period);
    return bytes;
  }
  /// N grey images of 4x4, and labels of three classes.
  static std::map<std::string, std::string> digits(int train, int test) {
    return {
        {"x_train.npy", npy_file("|u1", fmt::format("({}, 4, 4)", train), bytes_of(train * 16))},
        {"y_train.npy", npy_file("|u1", fmt::format("({},)", train), bytes_of(train, 3))},
        {"x_test.npy", npy_file("|u1", fmt::format("({}, 4, 4)", test), bytes_of(test * 16))},
        {"y_test.npy", npy_file("|u1", fmt::format("({},)", test), bytes_of(test, 3))}};
  }
  std::string write_zip(std::map<std::string, std::string> entries,
                        const std::string& name = "a.npz") {
    return write(name, zip_file(entries));
  }
  /// What is wrong with x.npy and y.npy of these.
  std::string error_of_pair(const std::string& x, const std::string& y, OpenOptions options = {}) {
    const std::string file = write_zip({{"x.npy", x}, {"y.npy", y}});
    return error_of<Error>([&] {
      const DataSplit split = numpy(file, options);
      for (std::int64_t i = 0; i < split.train->size(); ++i) sample_bytes(*split.train, 0, i);
    });
  }
};

// Element i of x, in C order, is i % 7, of y i % 3: tests/data/numpy_goldens/make.py.
TEST(NumpyGoldens, EveryTypeOrderAndVersionIsReadAsNumpyWroteIt) {
  for (const char* name : {"f2",
                           "f4",
                           "f8",
                           "i1",
                           "i2",
                           "i4",
                           "i8",
                           "u2",
                           "u4",
                           "u8",
                           "bool",
                           "version2",
                           "version3",
                           "fortran"}) {
    const NpyArray array = NpyArray::open(kNumpyGoldens + name + ".npy");
    const std::vector<double> numbers = numbers_of(array);
    ASSERT_EQ(numbers.size(), std::string(name) == "fortran" ? 24u : 12u) << name;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(numbers[i], std::string(name) == "bool" ? double(i % 7 > 0) : double(i % 7))
          << name << " " << i;
  }
}

TEST(NumpyGoldens, ArchivesStoredDeflatedAndWithoutNamesAreTheSame) {
  const DataSplit stored = numpy(kNumpyGoldens + "stored.npz");
  ASSERT_EQ(stored.train->size(), 6);
  EXPECT_EQ(stored.train->spec().input.to_string(), "u8[4, 4, 3]");
  EXPECT_EQ(stored.train->spec().classes, 3);
  const auto bytes = sample_bytes(*stored.train, 0, 5);
  for (std::size_t i = 0; i < 48; ++i) EXPECT_EQ(int(bytes[i]), int(5 * 48 + i) % 7);
  EXPECT_EQ(label_of(*stored.train, 0, 4), 1);
  for (const char* other : {"deflated.npz", "unnamed.npz"}) {
    const DataSplit split = numpy(kNumpyGoldens + other);
    EXPECT_EQ(split.train->fingerprint(), stored.train->fingerprint()) << other;
    EXPECT_EQ(sample_bytes(*split.train, 0, 3), sample_bytes(*stored.train, 0, 3)) << other;
  }
}

TEST_F(Numpy, KerasNamesHaveBothPartsAndMnistsNormalisation) {
  const DataSplit split = numpy(write_zip(digits(9, 4)));
  EXPECT_EQ(split.train->size(), 9);
  EXPECT_EQ(split.validation->size(), 4);
  EXPECT_EQ(split.train->spec().input.to_string(), "u8[4, 4, 1]");
  EXPECT_NEAR(255 * split.train->spec().scale[0] + split.train->spec().shift[0], 2.82149, 1e-5);
  EXPECT_EQ(label_of(*split.validation, 0, 2), 2);
  EXPECT_THAT(split.train->describe(), HasSubstr("9 samples of uint8[4, 4, 1] in 3 classes"));
  EXPECT_THAT(error_of<ConfigError>([&] { numpy(path("a.npz"), {.validation_fraction = 0.5}); }),
              HasSubstr("has a validation part"));
}

TEST_F(Numpy, FoldersOfFilesAndOfTwoArchivesAreTheSame) {
  const std::uint64_t expected = numpy(write_zip(digits(9, 4))).validation->fingerprint();
  std::filesystem::create_directory(path("files"));
  for (const auto& [name, content] : digits(9, 4)) write("files/" + name, content);
  EXPECT_EQ(numpy(path("files")).validation->fingerprint(), expected);
  std::filesystem::create_directory(path("two"));
  const auto all = digits(9, 4);
  write("two/train.npz",
        zip_file({{"images.npy", all.at("x_train.npy")}, {"labels.npy", all.at("y_train.npy")}}));
  write(
      "two/test.npz",
      zip_file({{"images.npy", all.at("x_test.npy")}, {"labels.npy", all.at("y_test.npy")}}, true));
  EXPECT_EQ(numpy(path("two")).validation->fingerprint(), expected);
}

TEST_F(Numpy, MedmnistHasLabelsOfOneColumnAndSeveralLabels) {
  const std::string images = npy_file("|u1", "(6, 4, 4)", bytes_of(96));
  const DataSplit one =
      numpy(write_zip({{"train_images.npy", images},
                       {"train_labels.npy", npy_file("|u1", "(6, 1)", bytes_of(6, 2))},
                       {"val_images.npy", images},
                       {"val_labels.npy", npy_file("|u1", "(6, 1)", bytes_of(6, 2))},
                       {"test_images.npy", images},
                       {"test_labels.npy", npy_file("|u1", "(6, 1)", bytes_of(6, 2))}}));
  EXPECT_EQ(one.train->spec().classes, 2);
  EXPECT_EQ(one.validation->size(), 6);
  const DataSplit several = numpy(write_zip(
      {{"images.npy", images}, {"labels.npy", npy_file("|u1", "(6, 3)", bytes_of(18, 2))}}));
  EXPECT_EQ(several.train->spec().target.to_string(), "f32[3]");
  EXPECT_TRUE(several.train->spec().multi_label);
  EXPECT_THAT(several.train->describe(), HasSubstr("with 3 labels"));
}

TEST_F(Numpy, OneHotRowsAreClasses) {
  const std::vector<float> labels{0, 1, 0, 1, 0, 0, 0, 0, 1};
  const DataSplit split =
      numpy(write_zip({{"x.npy", npy_of<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6})},
                       {"y.npy", npy_of("<f4", "(3, 3)", labels)}}));
  EXPECT_EQ(split.train->spec().classes, 3);
  EXPECT_EQ(label_of(*split.train, 0, 0), 1);
  EXPECT_EQ(label_of(*split.train, 0, 2), 2);
  EXPECT_THAT(split.train->describe(), HasSubstr("(one-hot)"));
}

/// The same rows as a table of texts and as arrays give the same bits of every sample.
TEST_F(Numpy, FeaturesAndNumbersAreStandardisedAsThoseOfTables) {
  std::string table = "a,b,price\n";
  std::vector<double> features, prices;
  for (int i = 0; i < 40; ++i) {
    const double a = i * 0.7 - 3, b = 1e3 + i * i * 0.01, price = std::sin(i) * 5;
    features.insert(features.end(), {a, b});
    prices.push_back(price);
    table += fmt::format("{},{},{}\n", a, b, price);
  }
  const std::string file = write_zip(
      {{"X.npy", npy_of("<f8", "(40, 2)", features)}, {"y.npy", npy_of("<f8", "(40,)", prices)}});
  const DataSplit arrays = numpy(file, {.validation_fraction = 0.25, .seed = 3});
  const DataSplit rows = csv(write("t.csv", table), 0.25, 3);
  ASSERT_EQ(arrays.train->size(), 30);
  ASSERT_EQ(arrays.train->spec().target.to_string(), "f32[1]");
  for (std::int64_t i = 0; i < 30; ++i)
    EXPECT_EQ(sample_bytes(*arrays.train, 0, i), sample_bytes(*rows.train, 0, i)) << i;
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(sample_bytes(*arrays.validation, 0, i), sample_bytes(*rows.validation, 0, i)) << i;
  // Evaluated by the record of the run, not by means of their own.
  const Preprocessing trained = arrays.train->preprocessing();
  const std::string other = write_zip({{"x.npy", npy_of<double>("<f8", "(1, 2)", {1, 2})},
                                       {"y.npy", npy_of<double>("<f8", "(1,)", {3})}},
                                      "other.npz");
  const DataSplit evaluated = numpy(other, {.validation_fraction = 1, .trained = &trained});
  const ColumnRecord& a = trained.table->columns[0];
  EXPECT_EQ(features_of(*evaluated.validation, 0)[0], float((1 - a.mean) / a.deviation));
}

TEST_F(Numpy, ImagesOfFloatsAreTakenAsTheyAre) {
  std::vector<float> pixels(2 * 5 * 4 * 2);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = float(i) * 0.25f - 2;
  const DataSplit split =
      numpy(write_zip({{"x.npy", npy_of("<f4", "(2, 5, 4, 2)", pixels)},
                       {"y.npy", npy_of<std::int64_t>("<i8", "(2,)", {1, 0})}}));
  EXPECT_EQ(split.train->spec().input.to_string(), "f32[5, 4, 2]");
  EXPECT_TRUE(split.train->spec().scale.empty());
  EXPECT_EQ(features_of(*split.train, 1), std::vector<float>(pixels.begin() + 40, pixels.end()));
}

TEST_F(Numpy, LargeArraysAreReadWhereTheyLieAndNoticedWhenCutOff) {
  const std::int64_t rows = 5000, side = 64;  // 19.5 MiB
  const std::string images = npy_file(
      "|u1", fmt::format("({}, {}, {})", rows, side, side), bytes_of(int(rows * side * side)));
  const std::string file =
      write_zip({{"x.npy", images},
                 {"y.npy", npy_file("|u1", fmt::format("({},)", rows), bytes_of(int(rows), 3))}});
  const DataSplit split = numpy(file);
  const auto bytes = sample_bytes(*split.train, 0, 4321);
  for (std::int64_t i = 0; i < side * side; ++i)
    ASSERT_EQ(int(bytes[std::size_t(i)]), (4321 * side * side + i) % 251);
  EXPECT_NE(split.train->content_sample(1).hash, 0u);
  std::filesystem::resize_file(file, 1000);
  EXPECT_THAT(error_of<DataError>([&] { sample_bytes(*split.train, 0, 4321); }),
              HasSubstr("a.npz: x[4321]: ends"));
}

TEST_F(Numpy, WhatIsNotReadIsNamedWithItsType) {
  const std::string y = npy_file("|u1", "(2,)", bytes_of(2));
  const auto wrong = [&](const std::string& descr, const std::string& content) {
    return error_of_pair(npy_file(descr, "(2, 2)", content), y);
  };
  EXPECT_THAT(wrong(">f4", std::string(16, '\0')),
              AllOf(HasSubstr("a.npz: x: elements of type '>f4' are big-endian"),
                    HasSubstr("x.astype('<f4')")));
  EXPECT_THAT(wrong("|O", "pickle"), HasSubstr("are pickled Python objects"));
  EXPECT_THAT(wrong("<c8", std::string(32, '\0')), HasSubstr("'<c8' are not read"));
  EXPECT_THAT(wrong("<U3", std::string(48, '\0')), HasSubstr("'<U3' are not read"));
  EXPECT_THAT(wrong("<f4", std::string(15, '\0')),
              HasSubstr("16 bytes, but 15 follow it: it ends in row 1"));
  EXPECT_THAT(wrong("<f4", std::string(17, '\0')), HasSubstr("16 bytes, but 17 follow it"));
  const std::string version =
      npy_file("<f4", "(2, 2)", std::string(16, '\0')).replace(6, 1, "\x04");
  EXPECT_THAT(error_of_pair(version, y), HasSubstr("version 1.0, 2.0 or 3.0, got 4.0"));
  EXPECT_THAT(error_of_pair("no array, but a text", y), HasSubstr("expected an .npy file"));
  EXPECT_THAT(error_of_pair(npy_file("<f4", "(2, 2", std::string(16, '\0')), y),
              HasSubstr("the header is damaged: expected an extent of 0 or more"));
  EXPECT_THAT(error_of_pair(npy_file("<f4", "(2, -2)", ""), y),
              HasSubstr("an extent of 0 or more"));
  EXPECT_THAT(error_of_pair(npy_file("<f4", "(9999999999, 9999999999)", ""), y),
              HasSubstr("more than any file has"));
  EXPECT_THAT(error_of_pair(npy_file("<f4", "(0, 2)", ""), y), HasSubstr("at least one element"));
  EXPECT_THAT(error_of_pair(npy_file("<f4", "()", std::string(4, '\0')), y),
              HasSubstr("at least one dimension"));
}

TEST_F(Numpy, NamesAndShapesThatAreWrongAreSaid) {
  const std::string y = npy_file("|u1", "(2,)", bytes_of(2));
  const auto images = [&](const char* shape, int count) {
    return npy_file("|u1", shape, bytes_of(count));
  };
  EXPECT_THAT(error_of_pair(images("(2, 3, 4, 4)", 96), y),
              AllOf(HasSubstr("with the channels last, got uint8[2, 3, 4, 4]"),
                    HasSubstr("transpose(0, 2, 3, 1)")));
  EXPECT_THAT(error_of_pair(images("(2, 4, 4, 2)", 64), y), HasSubstr("images of 1 or 3 channels"));
  EXPECT_THAT(error_of_pair(npy_file("<i4", "(2, 1, 1)", std::string(8, '\0')), y),
              HasSubstr("images of uint8 or floats"));
  EXPECT_THAT(error_of_pair(images("(2,)", 2), y), HasSubstr("tokens:FILE.npy"));
  EXPECT_THAT(error_of_pair(images("(3, 2, 2)", 12), y),
              HasSubstr("a.npz: y: expected as many targets as x has samples, 3, got 2"));
  const std::string text = write("notes.npz", "no array");
  EXPECT_THAT(error_of<DataError>([&] { numpy(text); }),
              HasSubstr("notes.npz: neither an .npz nor an .npy begins like this file"));
  const auto archive_error = [&](std::map<std::string, std::string> entries) {
    const std::string file = write_zip(std::move(entries));
    return error_of<DataError>([&] { numpy(file); });
  };
  EXPECT_THAT(archive_error({{"a.npy", y}, {"b.npy", y}}),
              AllOf(HasSubstr("the arrays in it are: a, b"), HasSubstr("x_train, y_train")));
  EXPECT_THAT(archive_error({{"x_train.npy", y}, {"b.npy", y}}),
              HasSubstr("x_train without y_train; the arrays in it are: b, x_train"));
  auto half = digits(4, 4);
  half.erase("y_test.npy");
  EXPECT_THAT(archive_error(half), HasSubstr("x_test without y_test"));
  EXPECT_THAT(error_of<DataError>([&] { numpy(write("x.npy", y)); }),
              HasSubstr("one array, whose targets are missing"));
  EXPECT_THAT(error_of<DataError>([&] { numpy(path("absent")); }),
              HasSubstr("absent: no such file or folder"));
  std::string damaged = zip_file(digits(90, 4), true);
  damaged[damaged.find("x_test.npy") + 30] ^= 1;
  EXPECT_THAT(error_of<DataError>([&] { numpy(write("d.npz", damaged)); }),
              HasSubstr("d.npz: x_test: damaged compression"));
}

TEST_F(Numpy, LabelsAndNumbersThatAreWrongAreNamedByIndex) {
  const std::string x = npy_of<float>("<f4", "(3, 1)", {1, 2, 3});
  EXPECT_THAT(error_of_pair(x, npy_of<std::int8_t>("|i1", "(3,)", {0, 1, -1})),
              HasSubstr("a.npz: y[2]: expected a class from 0 to 1, got -1"));
  EXPECT_THAT(error_of_pair(x, npy_of<std::int64_t>("<i8", "(3,)", {0, 1, 1 << 25})),
              HasSubstr("expected labels below 16777216, got 33554432"));
  EXPECT_THAT(error_of_pair(x, npy_of<std::int8_t>("|i1", "(3,)", {0, 0, 0})),
              HasSubstr("at least 2 classes"));
  EXPECT_THAT(error_of_pair(x, npy_of<std::int8_t>("|i1", "(3, 2)", {0, 2, 0, 1, 5, 5})),
              HasSubstr("expected 0 and 1 alone as labels"));
  EXPECT_THAT(error_of_pair(x, npy_of<float>("<f4", "(3,)", {0, NAN, 1})),
              HasSubstr("y[1]: expected a finite number"));
  EXPECT_THAT(error_of_pair(npy_of<float>("<f4", "(3, 1)", {1, INFINITY, 3}),
                            npy_of<float>("<f4", "(3,)", {0, 2, 1})),
              HasSubstr("x[1, 0]: expected a finite number, got inf"));
  const std::string image = npy_of<float>("<f4", "(3, 1, 1)", {1, 2, NAN});
  EXPECT_THAT(error_of_pair(image, npy_of<float>("<f4", "(3,)", {0, 2, 1})),
              HasSubstr("x[2]: expected finite numbers"));
  EXPECT_THAT(
      error_of_pair(
          x, npy_of<float>("<f4", "(3,)", {0.5, 2, 1}), {.table = {.task = Task::classification}}),
      HasSubstr("expected a class from 0 to 2, got 0.5"));
  const DataSplit counts =
      numpy(write_zip({{"x.npy", x}, {"y.npy", npy_of<std::int8_t>("|i1", "(3,)", {4, 7, 9})}}),
            {.table = {.task = Task::regression}});
  EXPECT_EQ(counts.train->spec().target.to_string(), "f32[1]");
  // Of a run of three classes a label past them is refused.
  const DataSplit run =
      numpy(write_zip({{"x.npy", x}, {"y.npy", npy_of<std::int8_t>("|i1", "(3,)", {0, 1, 2})}}));
  const Preprocessing trained = run.train->preprocessing();
  const std::string other =
      write_zip({{"x.npy", x}, {"y.npy", npy_of<std::int8_t>("|i1", "(3,)", {0, 3, 2})}}, "o.npz");
  EXPECT_THAT(error_of<DataError>(
                  [&] { open("numpy:" + other, {.validation_fraction = 1, .trained = &trained}); }),
              HasSubstr("o.npz: y[1]: expected a class from 0 to 2, got 3"));
}

TEST_F(Numpy, TokensAreArraysOfSixteenOrThirtyTwoBits) {
  std::vector<std::uint16_t> tokens(100);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::uint16_t(i);
  const std::vector<std::uint32_t> wide(tokens.begin(), tokens.end());
  const OpenOptions options{.context = 8};
  const DataSplit bare = data::tokens(
      write("t.bin", std::string(reinterpret_cast<const char*>(tokens.data()), 200)), options);
  const DataSplit narrow_array =
      data::tokens(write("t.npy", npy_of("<u2", "(100,)", tokens)), options);
  const DataSplit wide_array = data::tokens(write("w.npy", npy_of("<u4", "(100,)", wide)), options);
  for (std::int64_t i = 0; i < bare.train->size(); ++i) {
    EXPECT_EQ(sample_bytes(*narrow_array.train, 1, i), sample_bytes(*bare.train, 1, i));
    EXPECT_EQ(sample_bytes(*wide_array.train, 1, i), sample_bytes(*bare.train, 1, i));
  }
  write("train.npy", npy_of("<u2", "(100,)", tokens));
  write("val.npy", npy_of("<u2", "(100,)", tokens));
  EXPECT_EQ(data::tokens(folder_, options).validation->size(), 13);
  EXPECT_THAT(error_of<DataError>([&] {
                data::tokens(write("b.npy", npy_of<std::int64_t>("<i8", "(2,)", {1, 2})), options);
              }),
              AllOf(HasSubstr("expected tokens, uint16[N] or uint32[N], got int64[2]"),
                    HasSubstr("astype('uint16')")));
  EXPECT_THAT(error_of<DataError>([&] {
                data::tokens(write("c.npy", npy_of<std::uint16_t>("<u2", "(9,)", {1, 2})), options);
              }),
              HasSubstr("18 bytes, but 4 follow it"));
}

}  // namespace
}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "core/data/content_sample.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

class Sample : public DataFixture {
 protected:
  /// A file with holes, in which `text` stands at `at`.
  std::string large(const std::string& name, std::uint64_t bytes, std::uint64_t at = 0) {
    const std::string file = write(name, "");
    fs::resize_file(file, bytes);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(std::streamoff(at));
    stream << "x";
    return file;
  }
};

TEST_F(Sample, EveryByteOfASmallFileCounts) {
  const std::string one = write("one", std::string(100'000, 'a'));
  std::string text(100'000, 'a');
  EXPECT_EQ(sample_file(one, 1).hash, sample_file(write("two", text), 1).hash);
  text[70'001] = 'b';
  EXPECT_NE(sample_file(one, 1).hash, sample_file(write("other", text), 1).hash);
  EXPECT_NE(sample_file(one, 1).hash, sample_file(write("empty", ""), 1).hash);
}

TEST_F(Sample, OfALargeFileBothEndsTheSizeAndWhatTheSeedChose) {
  const std::uint64_t bytes = kWholeSampleBytes + 12'345;
  const auto hash = [&](std::uint64_t at, std::uint64_t seed) {
    return sample_file(large("large", bytes, at), seed).hash;
  };
  EXPECT_NE(hash(0, 1), hash(bytes - 1, 1));
  EXPECT_NE(hash(0, 1), sample_file(large("longer", bytes + 1), 1).hash);
  // Of the about 1,025 blocks between, 64 are read: some seed of many reads a given one.
  const std::uint64_t middle = bytes / 2;
  int noticed = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    noticed +=
        hash(middle, seed) != sample_file(large("other", bytes, middle + (1 << 20)), seed).hash;
  EXPECT_GT(noticed, 0);
  EXPECT_LT(noticed, 100) << "what it does not read, it does not notice";
}

TEST_F(Sample, ManyFilesBySizeTimeAndContent) {
  fs::create_directory(path("many"));
  for (int i = 0; i < 40; ++i) write("many/" + std::to_string(i), std::string(1000, 'a'));
  const auto sample = [&] {
    return sample_files(
        40, [&](std::int64_t i) { return path("many/" + std::to_string(i)); }, 7);
  };
  const ContentSample before = sample();
  EXPECT_EQ(sample().hash, before.hash);
  EXPECT_GT(before.written, 0);
  std::string text(1000, 'a');
  text[999] = 'b';
  write("many/17", text);
  EXPECT_NE(sample().hash, before.hash) << "another byte";
  write("many/17", std::string(1000, 'a'));
  EXPECT_EQ(sample().hash, before.hash);
  fs::last_write_time(path("many/17"), fs::file_time_type::clock::now() + std::chrono::hours(2));
  EXPECT_EQ(sample().hash, before.hash);
  EXPECT_GT(sample().written, before.written) << "another time";
  fs::remove(path("many/17"));
  EXPECT_NE(sample().hash, before.hash);
}

TEST_F(Sample, AFileThatIsNotThereIsEmpty) { EXPECT_TRUE(sample_file(path("none"), 1).empty()); }

TEST_F(Sample, WhatCannotBeReadIsAnErrorAndNoOtherContent) {
  fs::create_directory(path("folder"));
  EXPECT_THROW(sample_file(path("folder"), 1), DataError);
  EXPECT_THROW(sample_files(
                   1, [&](std::int64_t) { return path("folder"); }, 1),
               DataError);
}

}  // namespace
}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

std::string hex(const unsigned char* digest, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

// Fixes the difficulty: a change of a single pixel on any compiler or processor shows here.
TEST(Glyphs, FirstThousandTrainingImagesHaveTheCommittedHash) {
  const DataSplit split = glyphs();
  std::vector<std::byte> all;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto bytes = sample_bytes(*split.train, 0, i);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest);
  EXPECT_EQ(hex(digest, sizeof digest),
            "5ff0929eb97fb2f5eb39d3c91dc8863a96a46e77a21911051b695507f59fcb9f");
}

TEST(Glyphs, EpochsContinueTheSequence) {
  const DataSplit small = glyphs(100, 10), large = glyphs(1000, 10);
  // Image i of epoch e is number e * size + i.
  EXPECT_EQ(sample_bytes(*small.train, 3, 7), sample_bytes(*large.train, 0, 307));
  EXPECT_NE(sample_bytes(*small.train, 0, 7), sample_bytes(*small.train, 1, 7));
}

TEST(Glyphs, ValidationStaysTheSameAndIsNotTrainedOn) {
  const DataSplit split = glyphs(100, 100);
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sample_bytes(*split.validation, 0, i), sample_bytes(*split.validation, 5, i));
    EXPECT_NE(sample_bytes(*split.validation, 0, i), sample_bytes(*split.train, 0, i));
  }
}

TEST(Glyphs, SeedsDrawOtherImages) {
  EXPECT_NE(sample_bytes(*glyphs(10, 10, 1).train, 0, 0),
            sample_bytes(*glyphs(10, 10, 2).train, 0, 0));
  EXPECT_NE(glyphs(10, 10, 1).train->fingerprint(), glyphs(10, 10, 2).train->fingerprint());
  EXPECT_NE(glyphs(10, 10).train->fingerprint(), glyphs(11, 10).train->fingerprint());
}

TEST(Glyphs, ClassesAreEquallyFrequentAndPixelsStandardised) {
  const DataSplit split = glyphs(5000, 10);
  const SampleSpec& spec = split.train->spec();
  ASSERT_EQ(spec.input.to_string(), "u8[28, 28, 1]");
  ASSERT_EQ(spec.classes, 10);
  int counts[10] = {};
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto bytes = sample_bytes(*split.train, 0, i);
    for (std::size_t p = 0; p < 784; ++p) {
      const double x =
          double(std::uint8_t(bytes[p])) * double(spec.scale[0]) + double(spec.shift[0]);
      sum += x;
      squares += x * x;
    }
    ++counts[label_of(*split.train, 0, i)];
  }
  // Binomial deviation sqrt(5000 * .1 * .9) = 21; five of them.
  for (int count : counts) EXPECT_NEAR(count, 500, 5 * 21);
  // Image means vary by about 0.5; five deviations of the mean of 5,000 images.
  const double pixels = 5000.0 * 784;
  EXPECT_NEAR(sum / pixels, 0.0, 5 * 0.5 / std::sqrt(5000.0));
  EXPECT_NEAR(std::sqrt(squares / pixels), 1.0, 5 * 0.5 / std::sqrt(5000.0));
}

TEST(Glyphs, RefusesAnEmptyPart) {
  EXPECT_THAT(error_of<ConfigError>([] { glyphs(0, 10); }),
              testing::HasSubstr("at least 1 training image, got 0"));
  EXPECT_THAT(error_of<ConfigError>([] { glyphs(10, -1); }),
              testing::HasSubstr("at least 1 validation image, got -1"));
}

}  // namespace
}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_header.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "tests/support/image_files.h"

namespace lockstep::data {
namespace {

using test::jpeg_file;
using test::photo_like;
using test::png_file;

class ImageHeaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  std::uint64_t decoding_bytes(const std::string& bytes) const {
    const auto header = read_image_header({write("image", bytes)});
    return header ? header->decoding_bytes : 0;
  }

  std::filesystem::path folder_;
};

TEST_F(ImageHeaderTest, CountsFilePixelsAndCoefficients) {
  const int width = 203, height = 151;
  const std::uint64_t pixels = 203 * 151 * 3;
  const auto photo = photo_like(width, height, 1);
  const std::string baseline = jpeg_file(photo), progressive = jpeg_file(photo, 90, true);
  EXPECT_EQ(decoding_bytes(baseline), baseline.size() + pixels);
  // 4:2:0: units of 16x16 pixels have 4 blocks of light and 2 of colour, of 64 two-byte numbers.
  const std::uint64_t units = 13 * 10;
  EXPECT_EQ(decoding_bytes(progressive), progressive.size() + pixels + units * 6 * 64 * 2);
  const std::string png = png_file(photo);
  EXPECT_EQ(decoding_bytes(png), png.size() + pixels + std::uint64_t(height) * 8);
  EXPECT_EQ(read_image_header({write("size", png)})->size, (ImageSize{width, height}));
}

TEST_F(ImageHeaderTest, ADamagedFileHasNone) {
  for (const std::string& file :
       {jpeg_file(photo_like(24, 16, 1), 90, true), png_file(photo_like(24, 16, 1))}) {
    for (std::size_t bytes = 0; bytes < 20; ++bytes)
      EXPECT_FALSE(read_image_header({write("cut", file.substr(0, bytes))})) << bytes;
    for (std::size_t i = 0; i < file.size(); ++i)
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string damaged = file;
        damaged[i] = char(damaged[i] ^ change);
        decoding_bytes(damaged);  // a number or none; anything else ends the test
      }
  }
  EXPECT_FALSE(read_image_header({write("text", "no image")}));
  EXPECT_FALSE(read_image_header({(folder_ / "missing").string()}));
  EXPECT_FALSE(read_image_header({folder_.string()}));
}

TEST_F(ImageHeaderTest, EachThreadMayBeAtOneOfTheLargest) {
  std::vector<std::string> files;
  for (const int width : {10, 300, 20, 100})
    files.push_back(write(std::to_string(width), png_file(photo_like(width, 10, 1))));
  const auto path = [&](std::int64_t i) { return ImagePlace{files[std::size_t(i)]}; };
  const auto largest = largest_decodings(std::int64_t(files.size()), path, 2000);
  ASSERT_EQ(largest.size(), 4u);
  // 300x10 is refused, and takes nothing.
  EXPECT_EQ(largest[0], read_image_header({files[3]})->decoding_bytes);
  EXPECT_EQ(largest[3], 0u);
  EXPECT_EQ(sum_of_largest(largest, 2), largest[0] + largest[1]);
  EXPECT_EQ(sum_of_largest(largest, 64), largest[0] + largest[1] + largest[2]);
  EXPECT_TRUE(largest_decodings(0, path, 2000).empty());
}

}  // namespace
}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/resampler.h"

#include <cmath>
#include <gtest/gtest.h>

#include "tests/support/image_files.h"

namespace lockstep::data {
namespace {

using test::make_test_image;
using test::TestImage;

ImageView view_of(const TestImage& image) {
  return {image.pixels.data(), image.width * 3, image.width, image.height};
}

TestImage resampled(const TestImage& image, const Box& box, ImageSize size) {
  TestImage out{size.width, size.height, 3, {}};
  // One byte more, which must stay as it is.
  out.pixels.assign(std::size_t(size.width * size.height * 3) + 1, 0xa5);
  Resampler().run(view_of(image), box, size, out.pixels.data());
  EXPECT_EQ(out.pixels.back(), 0xa5);
  out.pixels.pop_back();
  return out;
}

/// Weight of input `i` for the output centred at `centre`, before they are made to sum to 1.
double triangle(double i, double centre, double support) {
  return std::max(0.0, 1 - std::abs(i + 0.5 - centre) / support);
}

/// The definition, in double precision and without separating rows and columns.
double exact(const TestImage& image, const Box& box, ImageSize size, int x, int y, int channel) {
  const double step_x = box.width / size.width, step_y = box.height / size.height;
  const double centre_x = box.x + (x + 0.5) * step_x, centre_y = box.y + (y + 0.5) * step_y;
  const double support_x = std::max(1.0, step_x), support_y = std::max(1.0, step_y);
  double sum = 0, weights = 0;
  for (int j = 0; j < image.height; ++j) {
    const double row = triangle(j, centre_y, support_y);
    if (row == 0) continue;
    for (int i = 0; i < image.width; ++i) {
      const double weight = row * triangle(i, centre_x, support_x);
      sum += weight * image.at(i, j, channel);
      weights += weight;
    }
  }
  return sum / weights;
}

void expect_exact(const TestImage& image, const Box& box, ImageSize size) {
  SCOPED_TRACE(testing::Message() << image.width << "x" << image.height << " to " << size.width
                                  << "x" << size.height);
  const TestImage out = resampled(image, box, size);
  double worst = 0;
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x)
      for (int c = 0; c < 3; ++c)
        worst = std::max(worst, std::abs(out.at(x, y, c) - exact(image, box, size, x, y, c)));
  // Half for the rounding; weights of 14 and 15 bits and 7 extra bits add less than the rest.
  EXPECT_LE(worst, 0.75);
}

TestImage noise(int width, int height) {
  return make_test_image(width, height, 3, [](int x, int y, int c) {
    return (x * 7919 + y * 104729 + c * 1299709) * 2654435761u >> 24;
  });
}

TEST(Resampler, AgreesWithTheDefinition) {
  for (const ImageSize from : {ImageSize{1, 1}, {2, 3}, {7, 5}, {33, 31}, {100, 40}})
    for (const ImageSize to : {ImageSize{1, 1}, {4, 4}, {5, 9}, {32, 32}, {64, 30}})
      expect_exact(
          noise(from.width, from.height), {0, 0, double(from.width), double(from.height)}, to);
}

TEST(Resampler, AgreesWithTheDefinitionWhereFiltersAreWide) {
  expect_exact(noise(300, 200), {0, 0, 300, 200}, {8, 6});  // 75 columns and 67 rows each
  expect_exact(noise(90, 45), {0, 0, 90, 45}, {9, 9});      // 20 columns, 10 rows
}

TEST(Resampler, TakesBoxesBetweenPixels) {
  expect_exact(noise(50, 40), {3.25, 7.5, 30.5, 20.125}, {16, 16});
  expect_exact(noise(50, 40), {0.5, 0.5, 4.75, 3.5}, {16, 12});
}

TEST(Resampler, CopiesAnImageAtItsOwnSize) {
  const TestImage image = noise(20, 12);
  EXPECT_EQ(resampled(image, {0, 0, 20, 12}, {20, 12}).pixels, image.pixels);
}

TEST(Resampler, LeavesOneColourAsItIs) {
  for (const int value : {0, 1, 127, 254, 255}) {
    const TestImage flat = make_test_image(61, 47, 3, [&](int, int, int) { return value; });
    for (const ImageSize to : {ImageSize{5, 5}, {32, 32}, {150, 99}})
      for (const std::uint8_t byte : resampled(flat, {0.3, 0.6, 60.1, 45.9}, to).pixels)
        ASSERT_EQ(byte, value);
  }
}

TEST(Resampler, KeepsNothingOfTheImageBefore) {
  Resampler resampler;
  const TestImage large = noise(200, 150), small = noise(9, 7);
  std::vector<std::uint8_t> first(30 * 30 * 3), again(first.size()), other(first.size());
  resampler.run(view_of(small), {0, 0, 9, 7}, {30, 30}, first.data());
  resampler.run(view_of(large), {0, 0, 200, 150}, {30, 30}, other.data());
  resampler.run(view_of(small), {0, 0, 9, 7}, {30, 30}, again.data());
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_crop.h"

#include <cmath>
#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

bool same(const Crop& a, const Crop& b) { return a.limit == b.limit; }

TEST(RandomCrop, LiesInThePictureWithTheAreaAndRatioAskedFor) {
  const ImageSize image{500, 375};
  double area = 0, least = 1, most = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const PixelRect part = random_crop(1, 0, i, image, 0.08).limit;
    ASSERT_GE(part.x, 0);
    ASSERT_GE(part.y, 0);
    ASSERT_LE(part.x + part.width, image.width);
    ASSERT_LE(part.y + part.height, image.height);
    const double share = double(part.width) * part.height / (500.0 * 375.0);
    const double ratio = double(part.width) / part.height;
    // Sides are rounded by up to half a pixel, here of at least 100.
    ASSERT_GE(share, 0.08 * 0.99);
    ASSERT_GE(ratio, 0.75 * 0.99);
    ASSERT_LE(ratio, 4.0 / 3.0 * 1.01);
    area += share / kDraws;
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_LT(least, 0.09);
  EXPECT_GT(most, 0.95);
  // Areas near 1 fit only with the image's own ratio and are drawn anew, so the mean lies below
  // that of the uniform distribution, 0.54, but above that of its lower half.
  EXPECT_GT(area, 0.40);
  EXPECT_LT(area, 0.54);
}

TEST(RandomCrop, ReachesAllPlaces) {
  int left = 0, right = 0, top = 0, bottom = 0;
  for (int i = 0; i < 4000; ++i) {
    const PixelRect part = random_crop(1, 0, i, {100, 100}, 0.08).limit;
    left += part.x == 0;
    right += part.x + part.width == 100;
    top += part.y == 0;
    bottom += part.y + part.height == 100;
  }
  for (const int hits : {left, right, top, bottom}) EXPECT_GT(hits, 40);
}

TEST(RandomCrop, IsKeyedBySeedEpochAndSample) {
  const auto crop = [](std::uint64_t seed, std::uint64_t epoch, std::int64_t sample) {
    return random_crop(seed, epoch, sample, {500, 375}, 0.08);
  };
  EXPECT_TRUE(same(crop(1, 2, 3), crop(1, 2, 3)));
  EXPECT_FALSE(same(crop(1, 2, 3), crop(2, 2, 3)));
  EXPECT_FALSE(same(crop(1, 2, 3), crop(1, 3, 3)));
  EXPECT_FALSE(same(crop(1, 2, 3), crop(1, 2, 4)));
}

// The crops of a run must not change with a library, compiler or processor.
TEST(RandomCrop, IsTheSameEverywhere) {
  EXPECT_EQ(random_crop(1, 0, 0, {500, 375}, 0.08).limit, (PixelRect{57, 16, 390, 308}));
  EXPECT_EQ(random_crop(7, 3, 1000, {500, 375}, 0.25).limit, (PixelRect{79, 14, 311, 299}));
}

TEST(RandomCrop, TakesTheMiddleWhereNothingFits) {
  // A part of ratio 3/4 or more of an image of 1000x10 has at most 13x10 of its 10,000 pixels.
  EXPECT_EQ(random_crop(1, 0, 0, {1000, 10}, 0.5).limit, (PixelRect{493, 0, 13, 10}));
  EXPECT_EQ(random_crop(1, 0, 0, {10, 1000}, 0.5).limit, (PixelRect{0, 493, 10, 13}));
  EXPECT_EQ(random_crop(1, 0, 0, {1, 1}, 1.0).limit, (PixelRect{0, 0, 1, 1}));
}

TEST(MiddleCrop, IsTheMiddleOfTheShrunkPicture) {
  // 500x375 -> 341x256, of which columns 58 to 282 and rows 16 to 240.
  const Crop crop = middle_crop({500, 375}, {224, 224}, 256);
  const double step = 375.0 / 256;
  EXPECT_NEAR(crop.box.x, 58 * 500.0 / 341, 1e-9);
  EXPECT_NEAR(crop.box.y, 16 * step, 1e-9);
  EXPECT_NEAR(crop.box.width, 224 * 500.0 / 341, 1e-9);
  EXPECT_NEAR(crop.box.height, 224 * step, 1e-9);
  EXPECT_EQ(crop.limit, (PixelRect{0, 0, 500, 375}));
  // 343x256: half of 119 is 59.5, and the even neighbour is 60.
  EXPECT_NEAR(middle_crop({343, 256}, {224, 224}, 256).box.x, 60, 1e-9);
}

TEST(MiddleCrop, LeavesPicturesOfTheRightSize) {
  const Crop crop = middle_crop({32, 32}, {32, 32}, evaluation_short_side(32));
  EXPECT_EQ(crop.box.x, 0);
  EXPECT_EQ(crop.box.width, 32);
  EXPECT_EQ(crop.box.height, 32);
}

TEST(Shrunk, ShrinksTheShortSideAndNeverEnlarges) {
  EXPECT_EQ(shrunk({500, 375}, 256), (ImageSize{341, 256}));
  EXPECT_EQ(shrunk({375, 500}, 256), (ImageSize{256, 341}));
  EXPECT_EQ(shrunk({100, 80}, 256), (ImageSize{100, 80}));
}

}  // namespace
}  // namespace lockstep::data

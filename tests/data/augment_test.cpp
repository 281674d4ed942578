// SPDX-License-Identifier: Apache-2.0
#include "lockstep/augment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <vector>

#include "core/data/augment.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;
using Image = std::vector<std::byte>;

constexpr int kHeight = 5, kWidth = 7, kChannels = 3;
const Shape kShape{kHeight, kWidth, kChannels};

std::byte at(const Image& image, int y, int x, int c) {
  return image[std::size_t((y * kWidth + x) * kChannels + c)];
}

/// Every byte is different and none is zero.
Image numbered() {
  Image image(kHeight * kWidth * kChannels);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = std::byte(i + 1);
  return image;
}

Image augmented(const char* text,
                std::int64_t sample,
                std::uint64_t epoch = 0,
                std::uint64_t seed = 1) {
  Image image = numbered(), scratch(image.size());
  augment(parse_augmentation(text), kShape, seed, epoch, sample, image.data(), scratch.data());
  return image;
}

Image translated(int dx, int dy) {
  const Image from = numbered();
  Image image(from.size());
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (int c = 0; c < kChannels; ++c) {
        const int sy = y - dy, sx = x - dx;
        const bool inside = sy >= 0 && sy < kHeight && sx >= 0 && sx < kWidth;
        image[std::size_t((y * kWidth + x) * kChannels + c)] =
            inside ? at(from, sy, sx, c) : std::byte{0};
      }
  return image;
}

void expect_all_moves(const char* text, int limit) {
  std::map<Image, int> seen;
  constexpr int kSamples = 2000;
  for (int sample = 0; sample < kSamples; ++sample) ++seen[augmented(text, sample)];
  const int moves = (2 * limit + 1) * (2 * limit + 1);
  EXPECT_EQ(seen.size(), std::size_t(moves));
  const double expected = double(kSamples) / moves;
  for (int dy = -limit; dy <= limit; ++dy)
    for (int dx = -limit; dx <= limit; ++dx)
      // Five binomial deviations, at most sqrt(expected).
      EXPECT_NEAR(seen[translated(dx, dy)], expected, 5 * std::sqrt(expected)) << dx << ' ' << dy;
}

TEST(Augment, ShiftMovesByUpToItsPixels) { expect_all_moves("shift:2", 2); }
TEST(Augment, CropCutsFromThePaddedImage) { expect_all_moves("crop:1", 1); }

TEST(Augment, FlipMirrorsHalfOfTheImages) {
  const Image from = numbered();
  Image mirrored(from.size());
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (int c = 0; c < kChannels; ++c)
        mirrored[std::size_t((y * kWidth + x) * kChannels + c)] = at(from, y, kWidth - 1 - x, c);
  int flipped = 0;
  for (int sample = 0; sample < 1000; ++sample) {
    const Image image = augmented("flip", sample);
    EXPECT_TRUE(image == from || image == mirrored);
    flipped += image == mirrored;
  }
  EXPECT_NEAR(flipped, 500, 5 * 16);  // binomial deviation sqrt(1000 / 4) = 16
}

TEST(Augment, IsKeyedBySeedEpochAndSample) {
  const char* text = "shift:2,flip,crop:1";
  std::set<Image> by_sample, by_epoch, by_seed;
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(augmented(text, std::int64_t(i)), augmented(text, std::int64_t(i)));
    by_sample.insert(augmented(text, std::int64_t(i)));
    by_epoch.insert(augmented(text, 0, i));
    by_seed.insert(augmented(text, 0, 0, i));
  }
  // 98 outcomes: 50 draws give about 39 different ones.
  EXPECT_GT(by_sample.size(), 20u);
  EXPECT_GT(by_epoch.size(), 20u);
  EXPECT_GT(by_seed.size(), 20u);
}

TEST(Augment, NoneLeavesTheImage) { EXPECT_EQ(augmented("none", 3), numbered()); }

TEST(Augment, MovesOutOfSightLeaveZeros) {
  for (int sample = 0; sample < 200; ++sample) {
    const Image image = augmented("shift:64", sample);
    EXPECT_EQ(image.size(), numbered().size());
  }
}

TEST(ParseAugmentation, ReadsListsAndPrintsThemBack) {
  EXPECT_TRUE(parse_augmentation("none").none());
  EXPECT_EQ(parse_augmentation("none").to_string(), "none");
  EXPECT_EQ(parse_augmentation("shift").shift, 2);
  EXPECT_EQ(parse_augmentation("crop").crop, 4);
  EXPECT_EQ(parse_augmentation("crop:3,flip,shift:1").to_string(), "shift:1,flip,crop:3");
}

TEST(ParseAugmentation, RefusesWhatItDoesNotKnow) {
  const auto error = [](const char* text) {
    return error_of<ConfigError>([&] { parse_augmentation(text); });
  };
  EXPECT_THAT(error("filp"), HasSubstr("got 'filp' | did you mean 'flip'?"));
  EXPECT_THAT(error("shfit:2"), HasSubstr("did you mean 'shift'?"));
  EXPECT_THAT(error("rotate"),
              HasSubstr("expected shift, flip, crop, resized-crop or none, got 'rotate'"));
  EXPECT_THAT(error(""), HasSubstr("got ''"));
  EXPECT_THAT(error("flip,"), HasSubstr("got ''"));
  EXPECT_THAT(error("none,flip"), HasSubstr("'none' cannot be combined"));
  EXPECT_THAT(error("flip,none"), HasSubstr("'none' cannot be combined"));
  EXPECT_THAT(error("flip,flip"), HasSubstr("'flip' is given twice"));
  EXPECT_THAT(error("shift:1,shift:2"), HasSubstr("'shift' is given twice"));
  EXPECT_THAT(error("flip:1"), HasSubstr("'flip' takes no value"));
  for (const char* bad :
       {"shift:", "shift:0", "shift:-1", "shift:65", "shift:2x", "crop:99999999999"})
    EXPECT_THAT(error(bad), HasSubstr(fmt::format("expected 1 to 64 pixels in '{}'", bad)));
}

}  // namespace
}  // namespace lockstep::data

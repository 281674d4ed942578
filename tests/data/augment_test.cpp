// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/augment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <vector>

#include "core/data/augment/augment_image.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;
using Image = std::vector<std::byte>;

constexpr int kHeight = 5, kWidth = 7, kChannels = 3;
const Shape kShape{kHeight, kWidth, kChannels};
const std::vector<std::byte> kZero(kChannels, std::byte{200});

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
  augment(
      parse_augmentation(text), kShape, kZero, seed, epoch, sample, image.data(), scratch.data());
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

// The pixel at -1 is that at 1, and the pixel at the width that at the width less 2.
TEST(Augment, ReflectBringsTheMirroredImageIn) {
  const Image from = numbered();
  std::set<Image> moved;
  for (int dy = -2; dy <= 2; ++dy)
    for (int dx = -2; dx <= 2; ++dx) {
      Image image(from.size());
      for (int y = 0; y < kHeight; ++y)
        for (int x = 0; x < kWidth; ++x)
          for (int c = 0; c < kChannels; ++c) {
            const int sy = std::abs(y - dy), sx = std::abs(x - dx);
            image[std::size_t((y * kWidth + x) * kChannels + c)] =
                at(from, std::min(sy, 2 * kHeight - 2 - sy), std::min(sx, 2 * kWidth - 2 - sx), c);
          }
      moved.insert(image);
    }
  std::set<Image> seen;
  for (int sample = 0; sample < 1000; ++sample) {
    seen.insert(augmented("shift:2,reflect", sample));
    seen.insert(augmented("crop:2,reflect", sample));
    // The same draws as without.
    EXPECT_EQ(augmented("shift:2", sample) == from, augmented("shift:2,reflect", sample) == from);
  }
  EXPECT_EQ(seen, moved);
}

TEST(Augment, AlternatingFlipMirrorsEachImageInEveryOtherEpoch) {
  const Image from = numbered();
  int flipped = 0;
  for (int sample = 0; sample < 1000; ++sample) {
    const Image first = augmented("alternating-flip", sample, 0);
    const Image second = augmented("alternating-flip", sample, 1);
    EXPECT_TRUE((first == from) != (second == from));
    for (std::uint64_t epoch = 2; epoch < 6; ++epoch)
      EXPECT_EQ(augmented("alternating-flip", sample, epoch), epoch % 2 == 0 ? first : second);
    EXPECT_TRUE(augmented("flip", sample) == first || augmented("flip", sample) == second);
    flipped += first != from;
  }
  EXPECT_NEAR(flipped, 500, 5 * 16);  // binomial deviation sqrt(1000 / 4) = 16
  EXPECT_NE(augmented("alternating-flip", 3, 0, 1), augmented("alternating-flip", 3, 1, 1));
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
  const Augmentation airbench = parse_augmentation("shift:2,reflect,alternating-flip");
  EXPECT_EQ(airbench.to_string(), "shift:2,alternating-flip,reflect");
  EXPECT_FALSE(parse_augmentation("alternating-flip").none());
}

TEST(ParseAugmentation, RefusesWhatItDoesNotKnow) {
  const auto error = [](const char* text) {
    return error_of<ConfigError>([&] { parse_augmentation(text); });
  };
  EXPECT_THAT(error("filp"), HasSubstr("got 'filp' | did you mean 'flip'?"));
  EXPECT_THAT(error("shfit:2"), HasSubstr("did you mean 'shift'?"));
  EXPECT_THAT(error("rotate"), HasSubstr("erasing, mixup, cutmix, or none, got 'rotate'"));
  EXPECT_THAT(error(""), HasSubstr("got ''"));
  EXPECT_THAT(error("flip,"), HasSubstr("got ''"));
  EXPECT_THAT(error("randaugment:2,"), HasSubstr("got ''"));
  EXPECT_THAT(error("none,flip"), HasSubstr("'none' cannot be combined"));
  EXPECT_THAT(error("flip,none"), HasSubstr("'none' cannot be combined"));
  EXPECT_THAT(error("flip,flip"), HasSubstr("'flip' is given twice"));
  EXPECT_THAT(error("shift:1,shift:2"), HasSubstr("'shift' is given twice"));
  EXPECT_THAT(error("flip,alternating-flip"), HasSubstr("cannot be combined, got 'flip,alter"));
  EXPECT_THAT(error("flip,reflect"), HasSubstr("'flip,reflect' has neither"));
  EXPECT_THAT(error("reflect:1,crop"), HasSubstr("'reflect' takes no value"));
  EXPECT_THAT(error("flip:1"), HasSubstr("'flip' takes no value"));
  EXPECT_THAT(error("trivialaugment:2"), HasSubstr("'trivialaugment' takes no value"));
  EXPECT_THAT(error("randaugment:2,9,1"), HasSubstr("'randaugment' takes at most 2 values"));
  EXPECT_THAT(error("jitter"), HasSubstr("expected jitter:BRIGHTNESS"));
  EXPECT_THAT(error("jitter:0.1,0.2"), HasSubstr("expected jitter:BRIGHTNESS"));
  EXPECT_THAT(error("jitter:0"), HasSubstr("changes nothing"));
  EXPECT_THAT(error("jitter:0.1,0.2,0.3,0.6"), HasSubstr("a hue of 0 to 0.5"));
  for (const char* bad : {"shift:", "shift:2x", "erasing:a", "randaugment:2,9x"})
    EXPECT_THAT(error(bad), HasSubstr(fmt::format("expected a number in '{}'", bad)));
  for (const char* bad : {"shift:0", "shift:-1", "shift:65", "crop:99999999999"})
    EXPECT_THAT(error(bad), HasSubstr(fmt::format("expected pixels of 1 to 64 in '{}'", bad)));
  for (const char* bad : {"erasing:0",
                          "erasing:1.5",
                          "erasing:nan",
                          "randaugment:0",
                          "randaugment:2,31",
                          "jitter:-1",
                          "jitter:inf",
                          "mixup:0",
                          "mixup:-1",
                          "cutmix:nan",
                          "cutmix:101",
                          "resized-crop:2"})
    EXPECT_THAT(error(bad), HasSubstr(fmt::format("in '{}'", bad)));
  EXPECT_THAT(error("shift:1.5"), HasSubstr("expected a whole number of pixels"));
}

TEST(ParseAugmentation, NumbersAfterACommaBelongToTheWordBefore) {
  const Augmentation read =
      parse_augmentation("erasing:0.25,randaugment:3,12,flip,jitter:0.4,trivialaugment");
  EXPECT_EQ(read.rand_operations, 3);
  EXPECT_EQ(read.rand_magnitude, 12);
  EXPECT_EQ(read.jitter.saturation, 0.4f);
  EXPECT_EQ(read.jitter.hue, 0);
  EXPECT_TRUE(read.flip && read.trivial);
  EXPECT_EQ(read.to_string(),
            "flip,jitter:0.4,0.4,0.4,0,randaugment:3,12,trivialaugment,erasing:0.25");
  EXPECT_EQ(parse_augmentation("randaugment").rand_operations, 2);
  EXPECT_EQ(parse_augmentation("randaugment:1").rand_magnitude, 9);
  EXPECT_EQ(parse_augmentation("erasing").erasing, 0.5);
}

TEST(ParseAugmentation, ReadsMixing) {
  const Augmentation both = parse_augmentation("cutmix,mixup,flip");
  EXPECT_EQ(both.mixup, 0.2);
  EXPECT_EQ(both.cutmix, 1);
  EXPECT_EQ(both.to_string(), "flip,mixup:0.2,cutmix:1");
  const Augmentation one = parse_augmentation("mixup:0.8");
  EXPECT_TRUE(one.mixes() && !one.none() && !one.changes_pixels());
  EXPECT_EQ(parse_augmentation(one.to_string()).mixup, 0.8);
  EXPECT_THAT(error_of<ConfigError>([] { parse_augmentation("mixup:0"); }),
              HasSubstr("`augment`: expected an alpha of 0.01 to 100 in 'mixup:0'"));
  EXPECT_THAT(error_of<ConfigError>([] { parse_augmentation("mixup,mixup"); }),
              HasSubstr("'mixup' is given twice"));
}

/// A grey image of a size that changes have room in.
Image plain(std::byte value) { return Image(32 * 32 * 3, value); }

Image changed(const char* text, std::int64_t sample, Image image) {
  Image scratch(image.size());
  augment(parse_augmentation(text), {32, 32, 3}, kZero, 1, 0, sample, image.data(), scratch.data());
  return image;
}

TEST(Augment, ErasedPartsHaveTheShareAndValueThatTheyShould) {
  constexpr int kSamples = 2000;
  int erased = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const Image image = changed("erasing:0.25", sample, plain(std::byte{7}));
    const auto count = std::ranges::count(image, std::byte{200});
    ASSERT_EQ(std::ranges::count(image, std::byte{7}) + count, std::ssize(image));
    if (count == 0) continue;
    ++erased;
    // Sides are whole pixels: half a pixel each, of at most 32.
    EXPECT_GE(count, 3 * 32 * 32 * 0.02 * 0.5);
    EXPECT_LE(count, 3 * 32 * 32 * 0.33 * 1.2);
  }
  // Five binomial deviations; a rectangle that does not fit ten times in a row is rarer than that.
  EXPECT_NEAR(erased, kSamples * 0.25, 5 * std::sqrt(kSamples * 0.25 * 0.75));
}

TEST(Augment, PoliciesDrawAllChangesAndOneMoreLeavesTheOthers) {
  Image image = plain({});
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = std::byte((i * 7 + i / 96 * 5) % 211 + 20);
  for (const char* text : {"randaugment", "trivialaugment", "jitter:0.4,0.4,0.4,0.1"}) {
    std::set<Image> seen;
    for (int sample = 0; sample < 300; ++sample) seen.insert(changed(text, sample, image));
    EXPECT_GE(seen.size(), 14u) << text;
  }
  // Those whose draw changes nothing else show that erasing's is its own.
  int equal = 0;
  for (int sample = 0; sample < 50; ++sample)
    equal += changed("erasing:1", sample, plain(std::byte{7})) ==
             changed("jitter:0,0,0,0.5,erasing:1", sample, plain(std::byte{7}));
  EXPECT_EQ(equal, 50);  // a grey pixel has no hue
}

TEST(Augment, ErasedPixelsAreWhatTheModelSeesAsZero) {
  SampleSpec spec;
  spec.input = {{4, 4, 3}, DType::u8};
  spec.scale = {0.02f, 0.1f, 1};
  spec.shift = {-2, -1.26f, 1};
  EXPECT_EQ(zero_pixel(spec), (Image{std::byte{100}, std::byte{13}, std::byte{0}}));
  spec.scale = {0.5f};
  spec.shift = {-1000};
  EXPECT_EQ(zero_pixel(spec), Image(3, std::byte{255}));
  spec.scale.clear();
  EXPECT_EQ(zero_pixel(spec), Image(3, std::byte{0}));
}

}  // namespace
}  // namespace lockstep::data

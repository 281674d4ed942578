// SPDX-License-Identifier: Apache-2.0
#include "core/data/growing_images.h"

#include <gtest/gtest.h>
#include <vector>

#include "core/data/augment/augment_image.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

std::vector<int> by_epoch(int first, int last, std::int64_t epochs) {
  const ImageGrowth growth{.first = first, .last = last, .epochs = epochs};
  std::vector<int> sides;
  for (std::int64_t epoch = 0; epoch < epochs + 1; ++epoch) sides.push_back(growth.side(epoch));
  return sides;
}

// Epochs e of E have the multiple of 32 nearest to first + (last - first) e / (E - 1).
TEST(ImageGrowth, RisesLinearlyInMultiplesOf32) {
  EXPECT_EQ(by_epoch(128, 192, 5), (std::vector{128, 160, 160, 192, 192, 192}));  // 144: halves up
  EXPECT_EQ(by_epoch(128, 176, 4), (std::vector{128, 160, 160, 176, 176}));       // 144, 160
  EXPECT_EQ(by_epoch(128, 176, 3), (std::vector{128, 160, 176, 176}));            // 152
  EXPECT_EQ(by_epoch(16, 24, 4), (std::vector{16, 24, 24, 24, 24}));  // 32 is beyond the last
  EXPECT_EQ(by_epoch(100, 300, 2), (std::vector{100, 300, 300}));
  EXPECT_EQ(by_epoch(100, 300, 1), (std::vector{300, 300}));
  EXPECT_EQ((ImageGrowth{128, 176, 16}.sides()), (std::vector{176, 160, 128}));
  EXPECT_EQ((ImageGrowth{32, 4096, std::int64_t{1} << 40}.sides().size()), 128u);
}

const auto noise_images = [](int side) { return synthetic({side, side, 3, 10}).train; };

TEST(GrowingImages, EachEpochHasItsSize) {
  const GrowingImages growing(noise_images(64),
                              {.first = 16, .last = 64, .epochs = 4});  // 16 32 48->64 64
  EXPECT_EQ(growing.spec().input.to_string(), "u8[64, 64, 3]");
  ASSERT_EQ(growing.specs().size(), 3u);
  std::vector<std::int64_t> sides;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const SampleSpec& spec = growing.specs()[growing.spec_of(epoch)];
    sides.push_back(spec.input.shape[0]);
    const auto alone = noise_images(int(sides.back()));
    EXPECT_EQ(sample_bytes(*alone, epoch, 7), [&] {
      std::vector<std::byte> bytes(spec.input.bytes() + spec.target.bytes());
      growing.load(epoch, 7, bytes.data(), bytes.data() + spec.input.bytes());
      return bytes;
    }());
  }
  EXPECT_EQ(sides, (std::vector<std::int64_t>{16, 32, 64, 64, 64}));
}

TEST(GrowingImages, AreRefusedOfImagesOfOneSize) {
  for (const auto& images : {glyphs(8, 8).train, synthetic({16, 8, 3, 2}).train}) {
    try {
      GrowingImages(images, {.first = 8, .last = 28, .epochs = 4});
      FAIL() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("`image_size` 8:28: "));
      EXPECT_THAT(error.what(), HasSubstr("makes no images of other sizes"));
    }
  }
}

// Augmented and mixed in each size as if there were no other.
TEST(GrowingImages, AreAugmentedInTheirSize) {
  LoaderOptions options{.workers = 0, .micro_batch = 4, .seed = 3};
  options.augmentation = parse_augmentation("flip,crop:2,erasing:1,cutmix");
  const auto load = [&](std::shared_ptr<const Dataset> data, std::uint64_t epoch) {
    Loader loader(std::move(data), options, [&](LoadRequest& request) {
      request.epoch = epoch;
      request.position = 8;
      request.samples = {5, 1, 2, 9};
      return true;
    });
    const LoadedBatch batch = loader.next();
    const std::size_t bytes = std::size_t(batch.samples) * (epoch == 0 ? 16 * 16 * 3 : 48 * 48 * 3);
    EXPECT_EQ(batch.input_bytes, bytes);
    EXPECT_EQ(batch.target_bytes, std::size_t(batch.samples) * 4 * sizeof(float));  // mixed
    EXPECT_FALSE(batch.mirrored);
    return std::vector<std::byte>(batch.input, batch.input + bytes);
  };
  const auto growing = std::make_shared<GrowingImages>(
      noise_images(48), ImageGrowth{.first = 16, .last = 48, .epochs = 2});
  EXPECT_EQ(load(growing, 0), load(noise_images(16), 0));
  EXPECT_EQ(load(growing, 1), load(noise_images(48), 1));
  options.augmentation = parse_augmentation("shift:17");
  EXPECT_THROW(load(growing, 0), ConfigError);  // out of sight in the first size
}

// Copy 0 has the bytes of a sample that is not repeated; each further one draws for itself.
TEST(RepeatedAugmentation, EachCopyDrawsForItself) {
  LoaderOptions options{.workers = 0, .micro_batch = 8, .seed = 3};
  options.augmentation = parse_augmentation("shift:4");
  const auto images = noise_images(24);
  const auto load = [&](const std::vector<std::int64_t>& samples, const std::vector<int>& copies) {
    Loader loader(images, options, [&](LoadRequest& request) {
      request.samples = samples;
      request.copies = copies;
      return true;
    });
    const LoadedBatch batch = loader.next();
    std::vector<std::vector<std::byte>> loaded;
    const std::size_t bytes = images->spec().input.bytes();
    for (std::int64_t i = 0; i < batch.samples; ++i)
      loaded.emplace_back(batch.input + std::size_t(i) * bytes,
                          batch.input + std::size_t(i + 1) * bytes);
    return loaded;
  };
  const auto plain = load({4, 6}, {}), copies = load({4, 6, 4, 6, 4}, {0, 0, 1, 1, 2});
  EXPECT_EQ(copies[0], plain[0]);
  EXPECT_EQ(copies[1], plain[1]);
  EXPECT_NE(copies[2], copies[0]);
  EXPECT_NE(copies[4], copies[0]);
  EXPECT_NE(copies[4], copies[2]);
  EXPECT_EQ(load({4}, {2})[0], copies[4]);  // wherever it is loaded
}

TEST(MirroredLoader, MirrorImagesFollowTheImages) {
  const auto images = synthetic({3, 5, 2, 4}).train;
  Loader loader(images, {.workers = 0, .micro_batch = 4, .mirror = true}, [](LoadRequest& request) {
    request.samples = {3, 8, 1};
    return true;
  });
  const LoadedBatch batch = loader.next();
  ASSERT_EQ(batch.samples, 3);
  EXPECT_TRUE(batch.mirrored);
  EXPECT_EQ(batch.input_bytes, 2u * 3 * 3 * 5 * 2);
  EXPECT_EQ(batch.target_bytes, 3u * sizeof(std::int32_t));
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t y = 0; y < 3; ++y)
      for (std::int64_t x = 0; x < 5; ++x)
        for (std::int64_t c = 0; c < 2; ++c) {
          const auto at = [&](std::int64_t n, std::int64_t column) {
            return batch.input[((n * 3 + y) * 5 + column) * 2 + c];
          };
          EXPECT_EQ(at(i, x), at(3 + i, 4 - x));
        }
}

}  // namespace
}  // namespace lockstep::data

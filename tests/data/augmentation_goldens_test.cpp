// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "core/data/augment/color_changes.h"
#include "core/data/augment/random_changes.h"

namespace lockstep::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes of_hexadecimal(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(std::uint8_t(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

struct GoldenImage {
  int height = 0, width = 0;
  Bytes pixels;
};

class AugmentationGoldens : public ::testing::Test {
 protected:
  /// What `change` makes of the image of that many channels, against torchvision's.
  template <typename Change>
  void expect(int channels, const std::string& name, const char* golden, Change change) {
    const GoldenImage& image = images_.at(channels);
    Bytes pixels = image.pixels;
    std::vector<std::byte> scratch(pixels.size());
    change(Pixels{pixels.data(), image.height, image.width, channels}, scratch.data());
    const Bytes right = of_hexadecimal(golden);
    ASSERT_EQ(pixels.size(), right.size()) << name;
    int different = 0, furthest = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const int distance = std::abs(int(pixels[i]) - int(right[i]));
      different += distance > 0;
      furthest = std::max(furthest, distance);
    }
    EXPECT_EQ(different, 0) << name << ": of " << right.size() << " bytes, by up to " << furthest;
    changed_ |= image.pixels != right;
  }

  std::map<int, GoldenImage> images_;
  bool changed_ = false;  // by some
};

TEST_F(AugmentationGoldens, ChangesAreTorchvisions) {
#define GOLDEN_IMAGE(channels, height, width, pixels) \
  images_[channels] = {height, width, of_hexadecimal(pixels)};
#define GOLDEN_CHANGE(channels, policy, change, m, negative, pixels)                     \
  expect(channels,                                                                       \
         #policy " " #change " " #negative " " #channels,                                \
         pixels,                                                                         \
         [](const Pixels& image, std::byte* scratch) {                                   \
           const bool trivial = std::string_view(#policy) == "trivial_augment";          \
           apply_change(image,                                                           \
                        Change::change,                                                  \
                        trivial ? trivial_augment_ranges() : rand_augment_ranges(image), \
                        m,                                                               \
                        negative,                                                        \
                        scratch);                                                        \
         });
#define GOLDEN_HUE(channels, turns, pixels)                                                   \
  expect(channels, "hue " #turns " " #channels, pixels, [](const Pixels& image, std::byte*) { \
    adjust_hue(image, turns);                                                                 \
  });
#include "tests/data/augmentation_goldens.inc"
  EXPECT_TRUE(changed_);
}

}  // namespace
}  // namespace lockstep::data

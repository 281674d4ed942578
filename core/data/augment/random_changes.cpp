// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment/random_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/data/augment/color_changes.h"
#include "core/data/augment/warp.h"

namespace lockstep::data {
namespace {

bool has_sign(Change change) { return change >= Change::shear_x && change <= Change::sharpness; }

Change draw_change(RandomStream& random) { return Change(random.below(kChanges)); }

void apply_drawn(const Pixels& image,
                 const ChangeRanges& ranges,
                 Change change,
                 int magnitude,
                 RandomStream& random,
                 std::byte* scratch) {
  const bool negative = has_sign(change) && random.below(2) == 1;
  apply_change(image, change, ranges, magnitude, negative, scratch);
}

/// A factor from [max(0, 1 - most), 1 + most].
float draw_factor(float most, RandomStream& random) {
  return random.uniform(std::max(0.0f, 1 - most), 1 + most);
}

}  // namespace

ChangeRanges rand_augment_ranges(const Pixels& image) {
  constexpr double kShare = 150.0 / 331;
  return {0.3, kShare * double(image.width), kShare * double(image.height), 30, 0.9, 4};
}

ChangeRanges trivial_augment_ranges() { return {0.99, 32, 32, 135, 0.99, 6}; }

void apply_change(const Pixels& image,
                  Change change,
                  const ChangeRanges& ranges,
                  int m,
                  bool negative,
                  std::byte* scratch) {
  const double t = double(m) / (kMagnitudes - 1), way = negative ? -t : t;
  const auto factor = float(1 + way * ranges.factor);
  switch (change) {
    case Change::identity:
      return;
    case Change::shear_x:
      return warp(image, shear_x(way * ranges.shear, image.height), scratch);
    case Change::shear_y:
      return warp(image, shear_y(way * ranges.shear, image.width), scratch);
    case Change::translate_x:
      return warp(image, translation(int(way * ranges.translate_x), 0), scratch);
    case Change::translate_y:
      return warp(image, translation(0, int(way * ranges.translate_y)), scratch);
    case Change::rotate:
      return warp(image, rotation(way * ranges.degrees), scratch);
    case Change::brightness:
      return adjust_brightness(image, factor);
    case Change::color:
      return adjust_saturation(image, factor);
    case Change::contrast:
      return adjust_contrast(image, factor);
    case Change::sharpness:
      return adjust_sharpness(image, factor, scratch);
    case Change::posterize:
      return posterize(image, int(std::nearbyint(8 - t * ranges.bits)));
    case Change::solarize:
      return solarize(image, float(255 * (1 - t)));
    case Change::autocontrast:
      return autocontrast(image);
    case Change::equalize:
      return equalize(image);
  }
}

void rand_augment(
    const Pixels& image, int operations, int magnitude, RandomStream& random, std::byte* scratch) {
  const ChangeRanges ranges = rand_augment_ranges(image);
  for (int i = 0; i < operations; ++i)
    apply_drawn(image, ranges, draw_change(random), magnitude, random, scratch);
}

void trivial_augment(const Pixels& image, RandomStream& random, std::byte* scratch) {
  const Change change = draw_change(random);
  const auto magnitude = int(random.below(kMagnitudes));
  apply_drawn(image, trivial_augment_ranges(), change, magnitude, random, scratch);
}

void color_jitter(const Pixels& image, const ColorJitter& jitter, RandomStream& random) {
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::uint32_t left = 4; left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  // All are drawn, so that one more leaves the others as they are.
  const float brightness = draw_factor(jitter.brightness, random),
              contrast = draw_factor(jitter.contrast, random),
              saturation = draw_factor(jitter.saturation, random),
              hue = random.uniform(-jitter.hue, jitter.hue);
  for (const int change : order) {
    if (change == 0 && jitter.brightness > 0) adjust_brightness(image, brightness);
    if (change == 1 && jitter.contrast > 0) adjust_contrast(image, contrast);
    if (change == 2 && jitter.saturation > 0) adjust_saturation(image, saturation);
    if (change == 3 && jitter.hue > 0) adjust_hue(image, hue);
  }
}

void random_erasing(const Pixels& image,
                    double probability,
                    std::span<const std::byte> fill,
                    RandomStream& random) {
  if (double(random.uniform()) >= probability) return;
  constexpr int kAttempts = 10;  // as torchvision
  const double log_ratio = std::log(10.0 / 3);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double area = double(image.count()) * double(random.uniform(0.02f, 0.33f));
    const double ratio = std::exp(double(random.uniform(-1, 1)) * log_ratio);
    const auto height = std::int64_t(std::nearbyint(std::sqrt(area * ratio))),
               width = std::int64_t(std::nearbyint(std::sqrt(area / ratio)));
    if (height >= image.height || width >= image.width) continue;
    const std::int64_t top = random.below(std::uint32_t(image.height - height + 1)),
                       left = random.below(std::uint32_t(image.width - width + 1));
    for (std::int64_t y = top; y < top + height; ++y)
      for (std::int64_t x = left; x < left + width; ++x)
        std::memcpy(image.data + (y * image.width + x) * image.channels, fill.data(), fill.size());
    return;
  }
}

}  // namespace lockstep::data

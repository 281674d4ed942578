// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment/augment_image.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/base/random.h"
#include "core/data/augment/random_changes.h"

namespace lockstep::data {
namespace {

/// Moves the image by (dx, dy) pixels to the right and down; zeros move in.
void translate(std::int64_t h,
               std::int64_t w,
               std::int64_t c,
               int dx,
               int dy,
               std::byte* data,
               std::byte* scratch) {
  if (dx == 0 && dy == 0) return;
  std::memcpy(scratch, data, std::size_t(h * w * c));
  std::memset(data, 0, std::size_t(h * w * c));
  const std::int64_t width = w - std::abs(dx);
  if (width <= 0) return;
  for (std::int64_t y = std::max(0, dy); y < std::min(h, h + dy); ++y)
    std::memcpy(data + (y * w + std::max(0, dx)) * c,
                scratch + ((y - dy) * w + std::max(0, -dx)) * c,
                std::size_t(width * c));
}

/// The pixel that is seen at `i` of `count` in a row that is mirrored at its outermost pixels, for
/// -count < i < 2 count - 1.
std::int64_t reflected(std::int64_t i, std::int64_t count) {
  return i < 0 ? -i : i < count ? i : 2 * (count - 1) - i;
}

/// The same, but the image mirrored at its edges moves in.
void translate_reflecting(std::int64_t h,
                          std::int64_t w,
                          std::int64_t c,
                          int dx,
                          int dy,
                          std::byte* data,
                          std::byte* scratch) {
  if (dx == 0 && dy == 0) return;
  std::memcpy(scratch, data, std::size_t(h * w * c));
  for (std::int64_t y = 0; y < h; ++y)
    for (std::int64_t x = 0; x < w; ++x)
      std::memcpy(data + (y * w + x) * c,
                  scratch + (reflected(y - dy, h) * w + reflected(x - dx, w)) * c,
                  std::size_t(c));
}

template <std::int64_t kBytes>
void flip_row(std::int64_t w, std::byte* row) {
  for (std::byte *left = row, *right = row + (w - 1) * kBytes; left < right;
       left += kBytes, right -= kBytes) {
    std::byte pixel[kBytes];
    std::memcpy(pixel, left, kBytes);
    std::memcpy(left, right, kBytes);
    std::memcpy(right, pixel, kBytes);
  }
}

void flip(std::int64_t h, std::int64_t w, std::int64_t c, std::byte* data) {
  for (std::int64_t y = 0; y < h; ++y) {
    std::byte* row = data + y * w * c;
    if (c == 1) {
      std::reverse(row, row + w);
    } else if (c == 3) {
      flip_row<3>(w, row);
    } else {
      for (std::int64_t left = 0, right = w - 1; left < right; ++left, --right)
        std::swap_ranges(row + left * c, row + (left + 1) * c, row + right * c);
    }
  }
}

/// A whole number in [-limit, limit]; biased by less than limit / 2^31.
int offset(std::uint32_t word, int limit) {
  return int(std::uint64_t{word} * std::uint64_t(2 * limit + 1) >> 32) - limit;
}

}  // namespace

void augment(const Augmentation& augmentation,
             const Shape& image,
             std::span<const std::byte> zero,
             std::uint64_t seed,
             std::uint64_t epoch,
             std::int64_t sample,
             std::byte* data,
             std::byte* scratch) {
  const std::int64_t h = image[0], w = image[1], c = image[2];
  // Each change has its own block, so that adding one leaves the draws of the others.
  const std::uint64_t key = random_key(seed, "augment");
  const auto draw = [&](std::uint64_t change) {
    return philox(key, std::uint64_t(sample), epoch << 2 | change);
  };
  const auto move = augmentation.reflect ? translate_reflecting : translate;
  if (augmentation.shift > 0) {
    const RandomBlock words = draw(0);
    const int dx = offset(words[0], augmentation.shift), dy = offset(words[1], augmentation.shift);
    move(h, w, c, dx, dy, data, scratch);
  }
  if (augmentation.flip && draw(1)[0] >> 31) flip(h, w, c, data);
  if (augmentation.alternating_flip) {
    constexpr std::uint64_t kOfAllEpochs = 3;
    const std::uint64_t first = philox(key, std::uint64_t(sample), kOfAllEpochs)[0] >> 31;
    if ((first + epoch) % 2 == 1) flip(h, w, c, data);
  }
  if (augmentation.crop > 0) {
    // Cutting the original size from a padded image is a move by up to the padding.
    const RandomBlock words = draw(2);
    const int dx = offset(words[0], augmentation.crop), dy = offset(words[1], augmentation.crop);
    move(h, w, c, dx, dy, data, scratch);
  }
  if (!augmentation.changes_pixels()) return;
  const Pixels pixels{reinterpret_cast<std::uint8_t*>(data), h, w, c};
  const auto stream = [&](std::string_view change) {
    const RandomBlock block = philox(random_key(seed, change), std::uint64_t(sample), epoch);
    return RandomStream(std::uint64_t{block[0]} << 32 | block[1],
                        std::uint64_t{block[2]} << 32 | block[3]);
  };
  if (!augmentation.jitter.none()) {
    RandomStream random = stream("jitter");
    color_jitter(pixels, augmentation.jitter, random);
  }
  if (augmentation.rand_operations > 0) {
    RandomStream random = stream("randaugment");
    rand_augment(
        pixels, augmentation.rand_operations, augmentation.rand_magnitude, random, scratch);
  }
  if (augmentation.trivial) {
    RandomStream random = stream("trivialaugment");
    trivial_augment(pixels, random, scratch);
  }
  if (augmentation.erasing > 0) {
    RandomStream random = stream("erasing");
    random_erasing(pixels, augmentation.erasing, zero, random);
  }
}

std::uint64_t seed_of_copy(std::uint64_t seed, int copy) {
  return copy == 0 ? seed : random_key(seed, "copy") + std::uint64_t(copy);
}

void mirror(const Shape& image, const std::byte* from, std::byte* to) {
  std::memcpy(to, from, std::size_t(image.elems()));
  flip(image[0], image[1], image[2], to);
}

std::vector<std::byte> zero_pixel(const SampleSpec& spec) {
  std::vector<std::byte> pixel(std::size_t(spec.input.shape[-1]));
  for (std::size_t c = 0; c < pixel.size() && !spec.scale.empty(); ++c) {
    const std::size_t i = spec.scale.size() == 1 ? 0 : c;
    const float value = -spec.shift[i] / spec.scale[i];
    if (value >= 0) pixel[c] = std::byte(std::min(std::nearbyint(value), 255.0f));
  }
  return pixel;
}

}  // namespace lockstep::data

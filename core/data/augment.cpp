// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/base/suggest.h"

namespace lockstep::data {
namespace {

constexpr int kMaxPixels = 64;
constexpr double kSmallestShare = 0.08;

/// The pixels after the colon of "shift:2", or `otherwise` where there is none.
int pixels(std::string_view item, int otherwise) {
  const auto colon = item.find(':');
  if (colon == item.npos) return otherwise;
  const std::string_view value = item.substr(colon + 1);
  int number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  LOCKSTEP_CHECK(status == std::errc{} && end == value.data() + value.size() && number >= 1 &&
                     number <= kMaxPixels,
                 ConfigError,
                 "`augment`: expected 1 to {} pixels in '{}'",
                 kMaxPixels,
                 as_written(item));
  return number;
}

/// The share after the colon of "resized-crop:0.35".
double share(std::string_view item) {
  const auto colon = item.find(':');
  if (colon == item.npos) return kSmallestShare;
  const std::string_view value = item.substr(colon + 1);
  double number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  LOCKSTEP_CHECK(
      status == std::errc{} && end == value.data() + value.size() && number >= 0.001 && number <= 1,
      ConfigError,
      "`augment`: expected a share of 0.001 to 1 in '{}'",
      as_written(item));
  return number;
}

void parse_item(std::string_view item, Augmentation& result) {
  const std::string_view word = item.substr(0, item.find(':'));
  const auto once = [&](bool fresh) {
    LOCKSTEP_CHECK(fresh, ConfigError, "`augment`: '{}' is given twice", word);
  };
  if (word == "shift") {
    once(result.shift == 0);
    result.shift = pixels(item, 2);
  } else if (word == "crop") {
    once(result.crop == 0);
    result.crop = pixels(item, 4);
  } else if (word == "resized-crop") {
    once(result.resized_crop == 0);
    result.resized_crop = share(item);
  } else if (word == "flip") {
    once(!result.flip);
    LOCKSTEP_CHECK(
        word == item, ConfigError, "`augment`: 'flip' takes no value, got '{}'", as_written(item));
    result.flip = true;
  } else {
    constexpr std::array<std::string_view, 5> kWords{
        "none", "shift", "flip", "crop", "resized-crop"};
    const std::string near = nearest(word, kWords);
    throw ConfigError(
        word == "none"
            ? fmt::format("`augment`: 'none' cannot be combined with others, got '{}' among them",
                          as_written(item))
            : fmt::format("`augment`: expected shift, flip, crop, resized-crop or none, got '{}'",
                          as_written(item)),
        near.empty() || near == word ? "" : fmt::format("did you mean '{}'?", near));
  }
}

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

std::string Augmentation::to_string() const {
  std::string text;
  if (resized_crop > 0) text += fmt::format(",resized-crop:{}", resized_crop);
  if (shift > 0) text += fmt::format(",shift:{}", shift);
  if (flip) text += ",flip";
  if (crop > 0) text += fmt::format(",crop:{}", crop);
  return text.empty() ? "none" : text.substr(1);
}

Augmentation parse_augmentation(std::string_view text) {
  Augmentation result;
  if (text == "none") return result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parse_item(text.substr(begin, end - begin), result);
    begin = end + 1;
  }
  return result;
}

void augment(const Augmentation& augmentation,
             const Shape& image,
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
  if (augmentation.shift > 0) {
    const RandomBlock words = draw(0);
    const int dx = offset(words[0], augmentation.shift), dy = offset(words[1], augmentation.shift);
    translate(h, w, c, dx, dy, data, scratch);
  }
  if (augmentation.flip && draw(1)[0] >> 31) flip(h, w, c, data);
  if (augmentation.crop > 0) {
    // Cutting the original size from a padded image is a move by up to the padding.
    const RandomBlock words = draw(2);
    const int dx = offset(words[0], augmentation.crop), dy = offset(words[1], augmentation.crop);
    translate(h, w, c, dx, dy, data, scratch);
  }
}

}  // namespace lockstep::data

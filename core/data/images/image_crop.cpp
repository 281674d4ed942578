// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_crop.h"

#include <algorithm>
#include <cmath>

#include "core/base/random.h"

namespace lockstep::data {
namespace {

constexpr double kLargestRatio = 4.0 / 3.0;
constexpr double kLogLargestRatio = 0.28768207245178092744;  // ln(4/3)
constexpr int kTries = 10;

/// e^x for |x| < 0.3: the Taylor series, whose 12 terms leave less than the rounding.
double small_exp(double x) {
  double term = 1, sum = 1;
  for (int n = 1; n <= 12; ++n) {
    term = term * x / n;
    sum += term;
  }
  return sum;
}

double uniform(std::uint32_t word) { return double(word) * 0x1p-32; }

int rounded(double x) { return int(std::floor(x + 0.5)); }

/// A whole number in [0, count), uneven by less than count / 2^32.
int below(int count, std::uint32_t word) {
  return int(std::uint64_t{word} * std::uint64_t(count) >> 32);
}

Crop cut(PixelRect part) {
  return {{double(part.x), double(part.y), double(part.width), double(part.height)}, part};
}

Crop largest_in_the_middle(ImageSize image) {
  PixelRect part{0, 0, image.width, image.height};
  const double ratio = double(image.width) / double(image.height);
  if (ratio < 1 / kLargestRatio) part.height = rounded(image.width * kLargestRatio);
  if (ratio > kLargestRatio) part.width = rounded(image.height * kLargestRatio);
  part.height = std::min(part.height, image.height);
  part.width = std::min(part.width, image.width);
  part.x = (image.width - part.width) / 2;
  part.y = (image.height - part.height) / 2;
  return cut(part);
}

/// Where a middle part of `size` of `resized` pixels lies in `original` ones.
void middle(int original, int resized, int size, double& begin, double& length) {
  const double scale = double(original) / double(resized);
  // Halves are rounded to the even pixel, as in torchvision.
  const int margin = resized - size, half = margin / 2;
  begin = (margin % 2 == 0 ? half : half + (half & 1)) * scale;
  length = size * scale;
}

/// The size whose short side is `short_side`, rounded down as torchvision's Resize does.
ImageSize with_short_side(ImageSize image, int short_side) {
  const auto scaled = [&](int length, int shorter) {
    return int(std::int64_t{short_side} * length / shorter);
  };
  return image.width <= image.height ? ImageSize{short_side, scaled(image.height, image.width)}
                                     : ImageSize{scaled(image.width, image.height), short_side};
}

}  // namespace

Crop random_crop(std::uint64_t seed,
                 std::uint64_t epoch,
                 std::int64_t sample,
                 ImageSize image,
                 double min_scale) {
  const std::uint64_t key = random_key(seed, "resized-crop");
  const double area = double(image.width) * double(image.height);
  for (std::uint64_t attempt = 0; attempt < kTries; ++attempt) {
    const RandomBlock words = philox(key, std::uint64_t(sample), epoch << 4 | attempt);
    const double part = area * (min_scale + (1 - min_scale) * uniform(words[0]));
    const double ratio = small_exp(kLogLargestRatio * (2 * uniform(words[1]) - 1));
    const int width = rounded(std::sqrt(part * ratio)), height = rounded(std::sqrt(part / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    return cut({below(image.width - width + 1, words[2]),
                below(image.height - height + 1, words[3]),
                width,
                height});
  }
  return largest_in_the_middle(image);
}

int evaluation_short_side(int size) { return int(std::int64_t{size} * 256 / 224); }

Crop middle_crop(ImageSize image, ImageSize part, int short_side) {
  Crop crop = whole(image);
  if (image == part) return crop;
  const ImageSize resized = with_short_side(image, short_side);
  middle(image.width, resized.width, part.width, crop.box.x, crop.box.width);
  middle(image.height, resized.height, part.height, crop.box.y, crop.box.height);
  return crop;
}

ImageSize shrunk(ImageSize image, int short_side) {
  return std::min(image.width, image.height) <= short_side ? image
                                                           : with_short_side(image, short_side);
}

Crop whole(ImageSize image) { return cut({0, 0, image.width, image.height}); }

}  // namespace lockstep::data

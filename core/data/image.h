// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::data {

struct ImageSize {
  int width = 0;
  int height = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Whole pixels; x to the right, y downwards.
struct PixelRect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const PixelRect&) const = default;
};

/// A rectangle between pixels: pixel i covers [i, i + 1).
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// What one output image is made of: `box` is stretched to it, and only pixels of `limit`
/// contribute, as if the rest had been cut off before.
struct Crop {
  Box box;
  PixelRect limit;
};

/// RGB pixels in memory of the caller, u8 [height, width, 3], rows `stride` bytes apart.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  std::int64_t stride = 0;
  int width = 0;
  int height = 0;
};

/// The largest limit of pixels: those of one image are counted in 32 bits of bytes.
constexpr std::int64_t kMaxMaxPixels = std::int64_t{1} << 30;

/// Max side of a sample of an image, in pixels: 48 MiB of bytes.
constexpr int kMaxImageSize = 4096;

/// Memory that a decoder keeps from one image to the next.
constexpr std::size_t kKeptPixelBytes = std::size_t{64} << 20;

}  // namespace lockstep::data

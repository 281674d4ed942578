// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {

/// Pixels u8 [height, width, channels].
struct TestImage {
  int width = 0, height = 0, channels = 3;
  std::vector<std::uint8_t> pixels;

  std::uint8_t at(int x, int y, int channel) const {
    return pixels[std::size_t((y * width + x) * channels + channel)];
  }
};

/// An image whose every byte is what `value(x, y, channel)` says.
TestImage make_test_image(int width,
                          int height,
                          int channels,
                          const std::function<int(int x, int y, int channel)>& value);

/// What a photograph is to a codec: smooth light and colour, edges, and grain. Keyed by `number`.
TestImage photo_like(int width, int height, std::uint64_t number);

/// The bytes of a JPEG file: 1 channel grey, 3 RGB with 4:2:0 colour, 4 CMYK as Adobe writes it.
std::string jpeg_file(const TestImage& image, int quality = 90, bool progressive = false);

/// The bytes of a PNG file: 1 channel grey, 2 grey with alpha, 3 RGB, 4 RGBA. With 16 bits the
/// low byte of each sample is 0xff minus its high one.
std::string png_file(const TestImage& image, int bits = 8, bool interlaced = false);

}  // namespace lockstep::test

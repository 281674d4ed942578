// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment/warp.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

namespace lockstep::data {

AffineMap translation(int right, int down) { return {.c = -double(right), .f = -double(down)}; }

AffineMap rotation(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  return {.a = cosine, .b = -sine, .d = sine, .e = cosine};
}

// The corner (0, 0) lies at (-width / 2, -height / 2) from the middle.
AffineMap shear_x(double slope, std::int64_t height) {
  return {.b = slope, .c = slope * double(height) / 2};
}

AffineMap shear_y(double slope, std::int64_t width) {
  return {.d = slope, .f = slope * double(width) / 2};
}

void warp(const Pixels& image, const AffineMap& map, std::byte* scratch) {
  std::memcpy(scratch, image.data, std::size_t(image.bytes()));
  const auto* from = reinterpret_cast<const std::uint8_t*>(scratch);
  const auto a = float(map.a), b = float(map.b), c = float(map.c), d = float(map.d),
             e = float(map.e), f = float(map.f);
  const float middle_x = float(image.width - 1) / 2, middle_y = float(image.height - 1) / 2;
  const auto step = std::size_t(image.channels);
  std::uint8_t* to = image.data;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const float dy = float(y) - middle_y;
    const float first_x = b * dy + c + middle_x, first_y = e * dy + f + middle_y;
    for (std::int64_t x = 0; x < image.width; ++x, to += step) {
      const float dx = float(x) - middle_x;
      const auto source_x = std::int64_t(std::nearbyint(a * dx + first_x)),
                 source_y = std::int64_t(std::nearbyint(d * dx + first_y));
      const bool inside =
          source_x >= 0 && source_x < image.width && source_y >= 0 && source_y < image.height;
      if (inside)
        std::memcpy(to, from + std::size_t(source_y * image.width + source_x) * step, step);
      else
        std::memset(to, 0, step);
    }
  }
}

}  // namespace lockstep::data

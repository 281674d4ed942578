// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::data {

/// An image u8 [height, width, channels] that is changed in place.
struct Pixels {
  std::uint8_t* data = nullptr;
  std::int64_t height = 0, width = 0, channels = 0;

  std::int64_t count() const { return height * width; }
  std::int64_t bytes() const { return count() * channels; }
};

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/data/image.h"

namespace lockstep::data {

/// What the header of an image file says that a decoder will need.
struct ImageHeader {
  ImageSize size;
  /// At most, for one sample of it: the file, all of its pixels as the decoder hands them over, of
  /// a PNG a pointer a row, and of a JPEG of several scans its coefficients: 2 bytes x 64 a block
  /// of each component.
  std::uint64_t decoding_bytes = 0;
};

/// Where an image lies: a file, or a part of one.
struct ImagePlace {
  std::string file = {};
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> bytes = {};  ///< nothing: to the end of the file
};

/// Reads no more of a JPEG or PNG file than its header. Nothing: it is neither, damaged or not
/// readable, which whoever decodes it will say.
std::optional<ImageHeader> read_image_header(const ImagePlace& image);

/// Of this many files the headers are read, all where there are no more: evenly among them.
constexpr std::int64_t kReadHeaders = 4096;

/// ImageHeader::decoding_bytes of those of `count` files that take most, in descending order, as
/// many as threads may load at once. `place` is called by several threads. Files of more than
/// `max_pixels` are refused before they take anything, and do not count.
std::vector<std::uint64_t> largest_decodings(std::int64_t count,
                                             const std::function<ImagePlace(std::int64_t)>& place,
                                             std::int64_t max_pixels);

/// Of `largest_decodings`, those that `threads` threads may be at together.
std::uint64_t sum_of_largest(const std::vector<std::uint64_t>& largest_decodings, int threads);

}  // namespace lockstep::data

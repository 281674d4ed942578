// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/images/image_workspace.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// Turns JPEG and PNG files into samples as an ImageRecord says: the short side is resized, and the
/// middle is cut out. A file of exactly the sample's size is taken as it is. Grey is made after the
/// resizing, by ITU-R BT.601's luma in Pillow's whole numbers,
///   L = (19595 R + 38470 G + 7471 B + 32768) >> 16,
/// which leaves a grey file as it is and is within 1 of resizing a grey image. The bytes are
/// those of an image in the validation part of images:DIR. As in training, EXIF orientation is not
/// looked at. Used by one thread at a time.
class ImageReader {
 public:
  /// Files of more than `max_pixels` are refused.
  explicit ImageReader(const ImageRecord& record, std::int64_t max_pixels = kDefaultMaxPixels);

  /// Of one sample.
  std::size_t bytes() const;
  /// Writes u8 [height, width, channels] to `out`. Throws DataError naming the file: it cannot be
  /// read or decoded.
  void read(const std::string& file, std::byte* out);

 private:
  ImageRecord record_;
  std::int64_t max_pixels_;
  ImageWorkspace work_;
  std::vector<std::uint8_t> rgb_;  // of a grey sample
};

}  // namespace lockstep::data

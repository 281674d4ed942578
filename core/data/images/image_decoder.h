// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/image.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// Decoded pixels, and where the asked-for box lies among them.
struct DecodedCrop {
  ImageView view;  ///< no pixel outside of the crop's limit; valid until the decoder's next call
  Box box;
};

/// Whether a decoder may read an image at a smaller scale that the file format offers. Quick is
/// for training: up to 1/8 of the pixels. Exact is what Pillow shows: evaluation and prediction.
enum class DecodeScale : std::uint8_t { quick, exact };

/// Turns one kind of image file into RGB pixels. Used by one thread at a time, file after file.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;

  /// Reads the header of a file in memory, which must stay there until decode() is over. `name` is
  /// for messages. Throws DataError naming file, byte and what is wrong: damaged, of no size, or of
  /// more than `max_pixels`.
  virtual ImageSize open(const std::string& name,
                         std::span<const std::byte> file,
                         std::int64_t max_pixels) = 0;

  /// Decodes, once per open(), what `crop` needs for an image of `target` pixels: fewer rows,
  /// columns and, with `scale` quick and a format that has it, a smaller scale that is still at
  /// least the target. Grey and palettes become RGB, transparency is dropped, 16 bits become 8.
  /// Throws DataError as open() does, and for a JPEG of more scans than max_scans().
  virtual DecodedCrop decode(const Crop& crop, ImageSize target, DecodeScale scale) = 0;
};

/// Each scan of a JPEG goes through all of its pixels, and costs the file next to nothing. Encoders
/// write about ten, those that search for the best 30; a file may have as many as this: 200, and of
/// a large image fewer, so that they go through no more than 4e9 pixels, but never less than 40.
int max_scans(ImageSize size);

/// Baseline and progressive JPEG: grey, YCbCr, RGB, CMYK, YCCK.
std::unique_ptr<ImageDecoder> make_jpeg_decoder();
std::unique_ptr<ImageDecoder> make_png_decoder();

/// A decoder for files of any kind, recognised by their first bytes, whatever their name says.
class AnyImageDecoder {
 public:
  AnyImageDecoder();
  /// As ImageDecoder; also throws DataError for a file that is neither JPEG nor PNG.
  ImageSize open(const std::string& name,
                 std::span<const std::byte> file,
                 std::int64_t max_pixels = kDefaultMaxPixels);
  DecodedCrop decode(const Crop& crop, ImageSize target, DecodeScale scale);

 private:
  std::unique_ptr<ImageDecoder> jpeg_, png_;
  ImageDecoder* current_ = nullptr;
};

/// Throws DataError: an image without pixels, or of more than `max_pixels`.
void check_image_size(const std::string& name,
                      std::int64_t width,
                      std::int64_t height,
                      std::int64_t max_pixels);

/// `bytes` of memory for pixels, of which none is kept; never holds the old and the new ones.
void reserve_pixels(std::vector<std::uint8_t>& pixels, std::size_t bytes);

/// The pixels of `crop.limit` that contribute to `target` pixels of `crop.box`.
PixelRect contributing(const Crop& crop, ImageSize target);

}  // namespace lockstep::data

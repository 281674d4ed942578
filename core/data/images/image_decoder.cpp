// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep::data {
namespace {

template <std::size_t Count>
bool starts_with(std::span<const std::byte> file, const std::array<int, Count>& signature) {
  return file.size() >= Count &&
         std::equal(
             signature.begin(), signature.end(), file.begin(), [](int expected, std::byte b) {
               return std::to_integer<int>(b) == expected;
             });
}

std::string first_bytes(std::span<const std::byte> file) {
  std::string text;
  for (const std::byte b : file.first(std::min<std::size_t>(file.size(), 8)))
    text += fmt::format(" {:02x}", std::to_integer<int>(b));
  return text;
}

void clip(int low, int high, double begin, double length, int count, int& first, int& extent) {
  const double support = std::max(1.0, length / count);
  const int from = std::clamp(int(std::floor(begin - support)), low, high - 1);
  const int to = std::clamp(int(std::ceil(begin + length + support)), from + 1, high);
  first = from;
  extent = to - from;
}

}  // namespace

AnyImageDecoder::AnyImageDecoder() : jpeg_(make_jpeg_decoder()), png_(make_png_decoder()) {}

ImageSize AnyImageDecoder::open(const std::string& name,
                                std::span<const std::byte> file,
                                std::int64_t max_pixels) {
  constexpr std::array<int, 3> kJpeg{0xff, 0xd8, 0xff};
  constexpr std::array<int, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  current_ = nullptr;
  const char* hint = "remove the file, or train with `skip_bad_samples`";
  if (file.empty()) throw DataError(fmt::format("{}: the file is empty", as_written(name)), hint);
  ImageDecoder* decoder = starts_with(file, kJpeg)  ? jpeg_.get()
                          : starts_with(file, kPng) ? png_.get()
                                                    : nullptr;
  if (decoder == nullptr)
    throw DataError(
        fmt::format("{}: expected a JPEG or PNG image, but the file starts with the bytes{}",
                    as_written(name),
                    first_bytes(file)),
        hint);
  const ImageSize size = decoder->open(name, file, max_pixels);
  current_ = decoder;
  return size;
}

DecodedCrop AnyImageDecoder::decode(const Crop& crop, ImageSize target, DecodeScale scale) {
  LOCKSTEP_ASSERT(current_ != nullptr);
  return current_->decode(crop, target, scale);
}

int max_scans(ImageSize size) {
  constexpr std::int64_t kMaxScans = 200, kMinScans = 40, kMaxScannedPixels = 4'000'000'000;
  const std::int64_t pixels = std::max<std::int64_t>(1, std::int64_t{size.width} * size.height);
  return int(std::clamp(kMaxScannedPixels / pixels, kMinScans, kMaxScans));
}

void reserve_pixels(std::vector<std::uint8_t>& pixels, std::size_t bytes) {
  if (pixels.size() >= bytes) return;
  pixels = {};
  pixels.resize(bytes);
}

void check_image_size(const std::string& name,
                      std::int64_t width,
                      std::int64_t height,
                      std::int64_t max_pixels) {
  LOCKSTEP_CHECK(width >= 1 && height >= 1,
                 DataError,
                 "{}: the header says {}x{} pixels, which is not a valid image size",
                 as_written(name),
                 width,
                 height);
  if (width * height > max_pixels)
    throw DataError(
        fmt::format("{}: the header says {}x{} pixels, {} in all; expected at most {}",
                    as_written(name),
                    width,
                    height,
                    width * height,
                    max_pixels),
        fmt::format("{}shrink the image, or train with `skip_bad_samples`",
                    width * height > kMaxMaxPixels
                        ? std::string()
                        : fmt::format("`max_pixels` {} allows it; or ", width * height)));
}

PixelRect contributing(const Crop& crop, ImageSize target) {
  const PixelRect& limit = crop.limit;
  PixelRect part;
  clip(
      limit.x, limit.x + limit.width, crop.box.x, crop.box.width, target.width, part.x, part.width);
  clip(limit.y,
       limit.y + limit.height,
       crop.box.y,
       crop.box.height,
       target.height,
       part.y,
       part.height);
  return part;
}

}  // namespace lockstep::data

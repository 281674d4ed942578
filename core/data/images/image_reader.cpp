// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_reader.h"

#include "core/data/images/image_crop.h"
#include "core/data/input_file.h"

namespace lockstep::data {

ImageReader::ImageReader(const ImageRecord& record, std::int64_t max_pixels)
    : record_(record), max_pixels_(max_pixels) {
  if (record.channels == 1) rgb_.resize(bytes() * 3);
}

std::size_t ImageReader::bytes() const {
  return std::size_t(record_.width) * std::size_t(record_.height) * std::size_t(record_.channels);
}

void ImageReader::read(const std::string& file, std::byte* out) {
  const auto content = read_bytes(file, work_.file, "check the file's name and permissions");
  const ImageSize stored = work_.decoder.open(file, content, max_pixels_);
  const ImageSize wanted{record_.width, record_.height};
  const DecodedCrop decoded = work_.decoder.decode(
      middle_crop(stored, wanted, record_.short_side), wanted, DecodeScale::exact);
  auto* const pixels = reinterpret_cast<std::uint8_t*>(out);
  if (record_.channels == 3) {
    work_.resampler.run(decoded.view, decoded.box, wanted, pixels);
    return;
  }
  work_.resampler.run(decoded.view, decoded.box, wanted, rgb_.data());
  for (std::size_t i = 0; i < bytes(); ++i)
    pixels[i] = std::uint8_t(
        (19595u * rgb_[3 * i] + 38470u * rgb_[3 * i + 1] + 7471u * rgb_[3 * i + 2] + 0x8000u) >>
        16);
}

}  // namespace lockstep::data

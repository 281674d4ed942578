// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG images of at most one million pixels; PNG also with checksums that fit.
#include <algorithm>
#include <zlib.h>

#include "core/data/images/image_crop.h"
#include "core/data/images/image_decoder.h"
#include "core/data/images/resampler.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep;

namespace {

/// Decoders may use memory for every pixel that a header promises, up to kDefaultMaxPixels; only
/// for this many does it stay below what is spared for any file.
constexpr std::int64_t kMaxPixels = 1'000'000;

void decode(data::AnyImageDecoder& decoder, std::span<const std::byte> file, bool random) {
  const data::ImageSize size = decoder.open("image", file);
  fuzz::require(size.width >= 1 && size.height >= 1 &&
                    std::int64_t{size.width} * size.height <= data::kDefaultMaxPixels,
                "a picture of an impossible size");
  if (std::int64_t{size.width} * size.height > kMaxPixels) return;
  const data::ImageSize wanted{24, 24};
  const data::Crop crop =
      random ? data::random_crop(file.size(), 0, 0, size, 0.1)
             : data::middle_crop(size, wanted, data::evaluation_short_side(wanted.width));
  const data::DecodedCrop decoded = decoder.decode(crop, wanted, data::DecodeScale::quick);
  std::vector<std::uint8_t> sample(std::size_t(wanted.width) * std::size_t(wanted.height) * 3);
  data::Resampler resampler;
  resampler.run(decoded.view, decoded.box, wanted, sample.data());
}

void read(std::span<const std::byte> file) {
  fuzz::run_parser(file.size(), [&] {
    data::AnyImageDecoder decoder;
    decode(decoder, file, false);
  });
  fuzz::run_parser(file.size(), [&] {
    data::AnyImageDecoder decoder;
    try {
      decode(decoder, file, true);
    } catch (const DataError&) {
      // A decoder continues with the next file.
    }
    decode(decoder, file, true);
  });
}

/// Gives every chunk of a PNG file the checksum of its bytes.
void put_right(std::vector<std::uint8_t>& file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::uint32_t bytes = std::uint32_t{file[at]} << 24 | std::uint32_t{file[at + 1]} << 16 |
                                std::uint32_t{file[at + 2]} << 8 | file[at + 3];
    if (bytes > file.size() - at - 12) return;
    const std::uint32_t sum = std::uint32_t(crc32(0, file.data() + at + 4, bytes + 4));
    at += 8 + bytes;
    for (int i = 0; i < 4; ++i) file[at + std::size_t(i)] = std::uint8_t(sum >> (24 - 8 * i));
    at += 4;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  std::vector<std::uint8_t> file(data, data + bytes);
  read(std::as_bytes(std::span(file)));
  if (bytes < 8 || data[0] != 0x89) return 0;
  put_right(file);
  read(std::as_bytes(std::span(file)));
  return 0;
}

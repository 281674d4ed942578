// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_header.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <numeric>
#include <span>
#include <system_error>
#include <thread>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "lockstep/data/loader.h"

namespace lockstep::data {
namespace {

/// Real files have a few dozen segments in front of their pixels.
constexpr int kMaxSegments = 4096;
/// Bytes between segments, which do not belong there.
constexpr int kMaxStrayBytes = 1 << 16;
constexpr int kHeaderReaders = 8;  // a file server answers several at once
constexpr int kMaxComponents = 4;
constexpr int kBlock = 8;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

/// Numbers in network byte order at any place of an image. Throws DataError after its end.
class Bytes {
 public:
  Bytes(const FileReader& file, const ImagePlace& image)
      : file_(file),
        begin_(std::min(image.offset, file.bytes())),
        size_(std::min(image.bytes.value_or(file.bytes()), file.bytes() - begin_)) {}

  std::uint64_t size() const { return size_; }

  std::uint64_t number(std::uint64_t at, int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | byte(at + std::uint64_t(i));
    return value;
  }

 private:
  std::uint8_t byte(std::uint64_t at) {
    if (at < first_ || at - first_ >= held_.size()) {
      first_ = at;
      const std::uint64_t left = size_ - std::min(at, size_);
      held_ = std::span(buffer_).first(std::min<std::uint64_t>(left, buffer_.size()));
      LOCKSTEP_CHECK(!held_.empty(), DataError, "{}: ends", as_written(file_.path().string()));
      file_.read(file_.path().string(), begin_ + at, held_);
    }
    return std::to_integer<std::uint8_t>(held_[at - first_]);
  }

  const FileReader& file_;
  std::uint64_t begin_, size_;
  std::array<std::byte, 4096> buffer_{};
  std::span<std::byte> held_;
  std::uint64_t first_ = 0;
};

/// A start-of-frame segment (ITU-T T.81, B.2.2) whose marker stands in front of `at`.
struct Frame {
  std::uint64_t width = 0, height = 0, components = 0, coefficient_bytes = 0;

  Frame(Bytes& bytes, std::uint64_t at) {
    height = bytes.number(at + 3, 2);
    width = bytes.number(at + 5, 2);
    components = std::min<std::uint64_t>(bytes.number(at + 7, 1), kMaxComponents);
    std::array<std::uint64_t, kMaxComponents> across{}, down{};
    std::uint64_t most_across = 1, most_down = 1;
    for (std::size_t c = 0; c < components; ++c) {
      const std::uint64_t factors = bytes.number(at + 9 + 3 * c, 1);
      most_across = std::max(most_across, across[c] = factors >> 4);
      most_down = std::max(most_down, down[c] = factors & 15);
    }
    // Each component has whole units of as many blocks as its factors say.
    const std::uint64_t units_across = round_up(width, kBlock * most_across) / most_across / kBlock,
                        units_down = round_up(height, kBlock * most_down) / most_down / kBlock;
    for (std::size_t c = 0; c < components; ++c)
      coefficient_bytes += units_across * across[c] * units_down * down[c] * kBlock * kBlock * 2;
  }
};

bool begins_frame(std::uint64_t marker) {
  // Of 0xc0 to 0xcf these three define tables.
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

bool is_progressive(std::uint64_t frame_marker) { return (frame_marker & 3) == 2; }

std::optional<ImageHeader> read_jpeg(Bytes& bytes, std::uint64_t file_bytes) {
  std::optional<Frame> frame;
  bool progressive = false;
  std::uint64_t at = 2;
  int stray = 0;
  for (int segment = 0; segment < kMaxSegments; ++segment) {
    for (; bytes.number(at, 1) != 0xff; ++at)
      if (++stray > kMaxStrayBytes) return std::nullopt;
    while (bytes.number(at, 1) == 0xff) ++at;
    const std::uint64_t marker = bytes.number(at++, 1);
    if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd9)) continue;
    if (begins_frame(marker)) {
      frame.emplace(bytes, at);
      progressive = is_progressive(marker);
    }
    if (marker == 0xda) break;  // the first scan
    at += bytes.number(at, 2);
  }
  if (!frame) return std::nullopt;
  const bool several_scans = progressive || bytes.number(at + 2, 1) < frame->components;
  const std::uint64_t channels = frame->components == 4 ? 4 : 3;
  return ImageHeader{{int(frame->width), int(frame->height)},
                     file_bytes + frame->width * frame->height * channels +
                         (several_scans ? frame->coefficient_bytes : 0)};
}

std::optional<ImageHeader> read_png(Bytes& bytes, std::uint64_t file_bytes) {
  constexpr std::uint64_t kLargest = 0x7fffffff;
  const std::uint64_t width = bytes.number(16, 4), height = bytes.number(20, 4);
  if (width > kLargest || height > kLargest) return std::nullopt;
  return ImageHeader{{int(width), int(height)},
                     file_bytes + width * height * 3 + height * sizeof(void*)};
}

}  // namespace

std::optional<ImageHeader> read_image_header(const ImagePlace& image) {
  try {
    const FileReader reader(image.file);
    Bytes bytes(reader, image);
    if (bytes.number(0, 3) == 0xffd8ff) return read_jpeg(bytes, bytes.size());
    if (bytes.number(0, 8) == 0x89504e470d0a1a0a) return read_png(bytes, bytes.size());
  } catch (const DataError&) {
  }
  return std::nullopt;
}

std::vector<std::uint64_t> largest_decodings(std::int64_t count,
                                             const std::function<ImagePlace(std::int64_t)>& place,
                                             std::int64_t max_pixels) {
  const std::int64_t read = std::min(count, kReadHeaders);
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(read));
  std::atomic<std::int64_t> next = 0;
  const auto look = [&] {
    try {
      for (std::int64_t i = next++; i < read; i = next++) {
        // `count` is far below 2^50.
        const std::optional<ImageHeader> header = read_image_header(place(i * count / read));
        if (header && std::int64_t{header->size.width} * header->size.height <= max_pixels)
          bytes[std::size_t(i)] = header->decoding_bytes;
      }
    } catch (const std::exception&) {  // no memory: the rest is not known
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (int t = 1; t < std::min<std::int64_t>(kHeaderReaders, read); ++t)
        helpers.emplace_back(look);
    } catch (const std::system_error&) {  // no more threads: those that there are do it
    }
    look();
  }
  std::ranges::sort(bytes, std::ranges::greater{});
  bytes.resize(std::min(bytes.size(), std::size_t(Loader::kMaxWorkers)));
  return bytes;
}

std::uint64_t sum_of_largest(const std::vector<std::uint64_t>& largest_decodings, int threads) {
  const auto end = std::min(largest_decodings.size(), std::size_t(threads));
  return std::accumulate(
      largest_decodings.begin(), largest_decodings.begin() + std::ptrdiff_t(end), std::uint64_t{0});
}

}  // namespace lockstep::data

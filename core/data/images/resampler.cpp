// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/resampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep::data {
namespace {

constexpr std::int64_t kChannels = 3;
constexpr int kRowBits = 15;     // of the weights of rows
constexpr int kColumnBits = 14;  // of the weights of columns
constexpr int kExtraBits = 7;    // of a mixed row beyond a byte
constexpr int kPadding = 8;      // elements that vector loads may touch after a row
/// Each tap of the quick way truncates by up to 2^-7: more taps go the precise way.
constexpr int kMaxQuickTaps = 8;

/// out[i] = sum over taps of high half of (input * 256) * weight: bytes * 2^(8 + 15 - 16).
void mix_quickly(const std::uint8_t* input,
                 std::int64_t stride,
                 const std::uint16_t* weights,
                 int taps,
                 std::int64_t count,
                 std::uint16_t* out) {
  std::int64_t i = 0;
#if defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128();
  for (; i + 16 <= count; i += 16) {
    __m128i low = zero, high = zero;
    for (int t = 0; t < taps; ++t) {
      const __m128i weight = _mm_set1_epi16(short(weights[t]));
      const __m128i bytes =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(input + t * stride + i));
      low = _mm_add_epi16(low, _mm_mulhi_epu16(_mm_unpacklo_epi8(zero, bytes), weight));
      high = _mm_add_epi16(high, _mm_mulhi_epu16(_mm_unpackhi_epi8(zero, bytes), weight));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i + 8), high);
  }
#endif
  for (; i < count; ++i) {
    std::uint32_t sum = 0;
    for (int t = 0; t < taps; ++t)
      sum += (std::uint32_t{input[t * stride + i]} << 8) * weights[t] >> 16;
    out[i] = std::uint16_t(sum);
  }
}

/// Bits that the sum over columns has beyond a byte.
constexpr int kShift = kExtraBits + kColumnBits;

/// One output pixel: sum over taps of row[3 * t + channel] * weight.
void mix_pixel(const std::uint16_t* row,
               const std::uint16_t* weights,
               std::int64_t taps,
               std::uint8_t* out) {
  for (std::int64_t c = 0; c < kChannels; ++c) {
    std::uint32_t sum = 1u << (kShift - 1);
    for (std::int64_t t = 0; t < taps; ++t)
      sum += std::uint32_t{row[kChannels * t + c]} * weights[t];
    out[c] = std::uint8_t(sum >> kShift);
  }
}

#if defined(__SSE2__)
/// The same for a number of taps that is even: red, green, blue and a byte that means nothing,
/// 32 bits each.
template <int kPairs>
inline __m128i sum_pixel(const std::uint16_t* row,
                         const std::uint16_t* weights,
                         std::int64_t pairs) {
  __m128i sum = _mm_set1_epi32(1 << (kShift - 1));
  const std::int64_t count = kPairs == 0 ? pairs : kPairs;
  for (std::int64_t t = 0; t < count; ++t) {
    std::uint32_t both = 0;
    std::memcpy(&both, weights + 2 * t, sizeof both);
    const auto* pixels = row + 2 * kChannels * t;
    const __m128i left = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixels));
    const __m128i right = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixels + kChannels));
    sum = _mm_add_epi32(sum,
                        _mm_madd_epi16(_mm_unpacklo_epi16(left, right), _mm_set1_epi32(int(both))));
  }
  return _mm_srli_epi32(sum, kShift);
}

/// As many groups of four pixels as leave room after them for one byte; returns the next pixel.
/// `kPairs` is the number of pairs of taps where the compiler may know it, else 0.
template <int kPairs>
std::int64_t mix_pixels(const std::uint16_t* row,
                        const int* first,
                        const std::uint16_t* weights,
                        std::int64_t taps,
                        std::int64_t count,
                        std::uint8_t* out) {
  std::int64_t i = 0;
  for (; i + 4 < count; i += 4, weights += 4 * taps, out += 4 * kChannels) {
    const auto pixel = [&](std::int64_t n) {
      return sum_pixel<kPairs>(row + kChannels * first[i + n], weights + n * taps, taps / 2);
    };
    const __m128i bytes =
        _mm_packus_epi16(_mm_packs_epi32(pixel(0), pixel(1)), _mm_packs_epi32(pixel(2), pixel(3)));
    std::uint32_t four[4];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(four), bytes);
    // Each pixel's fourth byte is overwritten by the next.
    for (std::int64_t n = 0; n < 4; ++n) std::memcpy(out + n * kChannels, four + n, 4);
  }
  return i;
}
#endif

}  // namespace

void Resampler::Axis::prepare(
    int size, double begin, double length, int count, int bits, Taps round) {
  const double step = length / count, support = std::max(1.0, step);
  const auto range = [&](int i, int& low, int& high) {
    const double centre = begin + (i + 0.5) * step;
    low = std::clamp(int(std::floor(centre - support + 0.5)), 0, size - 1);
    high = std::clamp(int(std::floor(centre + support + 0.5)), low + 1, size);
    return centre;
  };
  taps = 1;
  for (int i = 0; i < count; ++i) {
    int low = 0, high = 0;
    range(i, low, high);
    taps = std::max(taps, high - low);
  }
  const int used = taps;  // the rest have weight zero
  if (round == Taps::even) taps += taps & 1;
  first.resize(std::size_t(count));
  weights.assign(std::size_t(count) * std::size_t(taps), 0);
  exact.resize(std::size_t(taps));
  const int one = 1 << bits;
  for (int i = 0; i < count; ++i) {
    int low = 0, high = 0;
    const double centre = range(i, low, high);
    double sum = 0;
    for (int j = low; j < high; ++j) {
      const double weight = std::max(0.0, 1 - std::abs(j + 0.5 - centre) / support);
      exact[std::size_t(j - low)] = weight;
      sum += weight;
    }
    const int start = std::min(low, size - used);
    std::uint16_t* row = weights.data() + std::size_t(i) * std::size_t(taps) + (low - start);
    int left = one, largest = 0;
    for (int j = 0; j < high - low; ++j) {
      const double share = sum > 0 ? exact[std::size_t(j)] / sum : double(j == 0);
      row[j] = std::uint16_t(std::floor(share * one + 0.5));
      left -= row[j];
      if (row[j] > row[largest]) largest = j;
    }
    row[largest] = std::uint16_t(row[largest] + left);  // sums to exactly one: grey stays grey
    first[std::size_t(i)] = start;
  }
}

void Resampler::mix_rows(const ImageView& image, int output_row) {
  const std::uint8_t* input =
      image.pixels + std::int64_t{rows_.first[std::size_t(output_row)]} * image.stride;
  const std::uint16_t* weights =
      rows_.weights.data() + std::size_t(output_row) * std::size_t(rows_.taps);
  const std::int64_t count = std::int64_t{image.width} * kChannels;
  if (rows_.taps <= kMaxQuickTaps) {
    mix_quickly(input, image.stride, weights, rows_.taps, count, row_.data());
    return;
  }
  constexpr int kDrop = kRowBits - kExtraBits;
  std::fill(precise_.begin(), precise_.end(), 1u << (kDrop - 1));
  for (int t = 0; t < rows_.taps; ++t) {
    const std::uint8_t* row = input + t * image.stride;
    const std::uint32_t weight = weights[t];
    for (std::int64_t i = 0; i < count; ++i) precise_[std::size_t(i)] += row[i] * weight;
  }
  for (std::int64_t i = 0; i < count; ++i)
    row_[std::size_t(i)] = std::uint16_t(precise_[std::size_t(i)] >> kDrop);
}

void Resampler::mix_columns(int count, std::uint8_t* out) const {
  const std::int64_t taps = columns_.taps;
  const int* first = columns_.first.data();
  const std::uint16_t* weights = columns_.weights.data();
  std::int64_t i = 0;
#if defined(__SSE2__)
  const auto mix = taps == 2   ? mix_pixels<1>
                   : taps == 4 ? mix_pixels<2>
                   : taps == 6 ? mix_pixels<3>
                               : mix_pixels<0>;
  i = mix(row_.data(), first, weights, taps, count, out);
#endif
  for (; i < count; ++i)
    mix_pixel(row_.data() + kChannels * first[i], weights + i * taps, taps, out + i * kChannels);
}

void Resampler::run(const ImageView& image, const Box& box, ImageSize size, std::uint8_t* out) {
  const std::int64_t out_stride = std::int64_t{size.width} * kChannels;
  const bool same = image.width == size.width && image.height == size.height;
  if (same && box.x == 0 && box.y == 0 && box.width == size.width && box.height == size.height) {
    for (int y = 0; y < size.height; ++y)
      std::memcpy(out + y * out_stride, image.pixels + y * image.stride, std::size_t(out_stride));
    return;
  }
  rows_.prepare(image.height, box.y, box.height, size.height, kRowBits, Taps::any);
  columns_.prepare(image.width, box.x, box.width, size.width, kColumnBits, Taps::even);
  const auto elems = std::size_t(image.width) * kChannels;
  row_.assign(elems + kPadding, 0);
  precise_.resize(elems);
  for (int y = 0; y < size.height; ++y) {
    mix_rows(image, y);
    mix_columns(size.width, out + y * out_stride);
  }
}

}  // namespace lockstep::data

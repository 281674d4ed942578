// SPDX-License-Identifier: Apache-2.0
#include "core/data/augment/color_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace lockstep::data {
namespace {

using Table = std::array<std::uint8_t, 256>;

std::uint8_t to_pixel(float value) { return std::uint8_t(std::clamp(value, 0.0f, 255.0f)); }

template <typename Function>
Table table_of(Function function) {
  Table table;
  for (int x = 0; x < 256; ++x) table[std::size_t(x)] = function(x);
  return table;
}

void look_up(const Pixels& image, const Table& table) {
  for (std::int64_t i = 0; i < image.bytes(); ++i) image.data[i] = table[image.data[i]];
}

void look_up(const Pixels& image, std::int64_t channel, const Table& table) {
  for (std::int64_t i = channel; i < image.bytes(); i += image.channels)
    image.data[i] = table[image.data[i]];
}

float grey_of(const std::uint8_t* pixel) {
  return std::floor(float(pixel[0]) * 0.2989f + 0.587f * float(pixel[1]) +
                    0.114f * float(pixel[2]));
}

std::uint8_t blended(float x, float other, float factor) {
  return to_pixel(x * factor + (1 - factor) * other);
}

struct Hsv {
  float h, s, v;
};

// Of values in [0, 1]. As Pillow's Convert.c.
Hsv to_hsv(float r, float g, float b) {
  const float low = std::min({r, g, b}), high = std::max({r, g, b});
  if (low == high) return {0, 0, high};
  const float range = high - low;
  const float rc = (high - r) / range, gc = (high - g) / range, bc = (high - b) / range;
  const float sixths = high == r ? bc - gc : high == g ? rc + 2 - bc : gc + 4 - rc;
  return {std::fmod(sixths * (1.0f / 6) + 1, 1.0f), range / high, high};
}

std::array<float, 3> to_rgb(const Hsv& color) {
  const float h6 = color.h * 6, whole = std::floor(h6), f = h6 - whole;
  const auto unit = [](float value) { return std::clamp(value, 0.0f, 1.0f); };
  const float v = color.v, sf = color.s * f, rest = 1 - color.s;
  const float p = unit(rest * v), q = unit((1 - sf) * v), t = unit((sf + rest) * v);
  switch (int(whole) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

std::array<std::int64_t, 256> histogram(const Pixels& image, std::int64_t channel) {
  std::array<std::int64_t, 256> counts{};
  for (std::int64_t i = channel; i < image.bytes(); i += image.channels) ++counts[image.data[i]];
  return counts;
}

}  // namespace

void adjust_brightness(const Pixels& image, float factor) {
  look_up(image, table_of([&](int x) { return to_pixel(float(x) * factor); }));
}

void adjust_contrast(const Pixels& image, float factor) {
  double sum = 0;  // of whole numbers: exact
  for (std::int64_t i = 0; i < image.count(); ++i) {
    const std::uint8_t* pixel = image.data + i * image.channels;
    sum += image.channels == 3 ? double(grey_of(pixel)) : double(*pixel);
  }
  const auto mean = float(sum / double(image.count()));
  look_up(image, table_of([&](int x) { return blended(float(x), mean, factor); }));
}

void adjust_saturation(const Pixels& image, float factor) {
  if (image.channels != 3) return;
  for (std::uint8_t *pixel = image.data, *end = pixel + image.bytes(); pixel < end; pixel += 3) {
    const float grey = grey_of(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = blended(pixel[c], grey, factor);
  }
}

void adjust_hue(const Pixels& image, float turns) {
  if (image.channels != 3) return;
  for (std::uint8_t *pixel = image.data, *end = pixel + image.bytes(); pixel < end; pixel += 3) {
    Hsv color = to_hsv(float(pixel[0]) / 255, float(pixel[1]) / 255, float(pixel[2]) / 255);
    color.h += turns;
    color.h -= std::floor(color.h);
    const std::array<float, 3> rgb = to_rgb(color);
    for (std::size_t c = 0; c < 3; ++c) pixel[c] = std::uint8_t(rgb[c] * (255 + 1.0f - 1e-3f));
  }
}

void adjust_sharpness(const Pixels& image, float factor, std::byte* scratch) {
  if (image.height <= 2 || image.width <= 2) return;
  std::memcpy(scratch, image.data, std::size_t(image.bytes()));
  const auto* from = reinterpret_cast<const std::uint8_t*>(scratch);
  const std::int64_t row = image.width * image.channels, step = image.channels;
  for (std::int64_t y = 1; y < image.height - 1; ++y)
    for (std::int64_t i = y * row + step; i < (y + 1) * row - step; ++i) {
      const std::uint8_t* x = from + i;
      const int around = x[-row - step] + x[-row] + x[-row + step] + x[-step] + x[step] +
                         x[row - step] + x[row] + x[row + step];
      const float blurred = std::nearbyint(float(around + 5 * x[0]) / 13);
      image.data[i] = to_pixel(float(x[0]) + (1 - factor) * (blurred - float(x[0])));
    }
}

void posterize(const Pixels& image, int bits) {
  const int mask = ((1 << bits) - 1) << (8 - bits);
  look_up(image, table_of([&](int x) { return std::uint8_t(x & mask); }));
}

void solarize(const Pixels& image, float threshold) {
  look_up(image,
          table_of([&](int x) { return std::uint8_t(float(x) >= threshold ? 255 - x : x); }));
}

void autocontrast(const Pixels& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto counts = histogram(image, c);
    int low = 0, high = 255;
    while (low < 255 && counts[std::size_t(low)] == 0) ++low;
    while (high > low && counts[std::size_t(high)] == 0) --high;
    if (low == high) continue;
    const float scale = float(high - low) * (1.0f / 255);
    look_up(image, c, table_of([&](int x) { return to_pixel(float(x - low) / scale); }));
  }
}

void equalize(const Pixels& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto counts = histogram(image, c);
    std::size_t highest = 255;
    while (highest > 0 && counts[highest] == 0) --highest;
    const std::int64_t step = (image.count() - counts[highest]) / 255;
    if (step == 0) continue;
    std::int64_t below = step / 2;
    look_up(image, c, table_of([&](int x) {
              const std::int64_t value = x == 0 ? 0 : std::min<std::int64_t>(below / step, 255);
              below += counts[std::size_t(x)];
              return std::uint8_t(value);
            }));
  }
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/image_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <png.h>

#include "core/base/random.h"

namespace lockstep::test {

TestImage make_test_image(int width,
                          int height,
                          int channels,
                          const std::function<int(int x, int y, int channel)>& value) {
  TestImage image{width, height, channels, {}};
  image.pixels.reserve(std::size_t(width) * std::size_t(height) * std::size_t(channels));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(std::uint8_t(std::clamp(value(x, y, c), 0, 255)));
  return image;
}

TestImage photo_like(int width, int height, std::uint64_t number) {
  RandomStream draw(random_key(1, "photo"), number);
  struct Wave {
    float x, y, phase, height;
  };
  std::vector<Wave> waves;
  for (int i = 0; i < 9; ++i)
    waves.push_back({draw.uniform(-0.05f, 0.05f),
                     draw.uniform(-0.05f, 0.05f),
                     draw.uniform(0, 6.28f),
                     draw.uniform(5, 25)});
  struct Disc {
    float x, y, radius, light[3];
  };
  std::vector<Disc> discs;
  for (int i = 0; i < 25; ++i)
    discs.push_back({draw.uniform(0, float(width)),
                     draw.uniform(0, float(height)),
                     draw.uniform(5, 90),
                     {draw.uniform(-60, 60), draw.uniform(-60, 60), draw.uniform(-60, 60)}});
  const float grain = draw.uniform(4, 14);
  TestImage image{width, height, 3, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      float light[3] = {120, 120, 120};
      for (std::size_t i = 0; i < waves.size(); ++i) {
        const Wave& w = waves[i];
        light[i % 3] += w.height * std::sin(w.x * float(x) + w.y * float(y) + w.phase);
      }
      for (const Disc& d : discs) {
        const float dx = float(x) - d.x, dy = float(y) - d.y;
        if (dx * dx + dy * dy < d.radius * d.radius)
          for (int c = 0; c < 3; ++c) light[c] += d.light[c];
      }
      const float noise = grain * (draw.uniform() + draw.uniform() + draw.uniform() - 1.5f);
      for (const float value : light)
        image.pixels.push_back(std::uint8_t(std::clamp(value + noise, 0.0f, 255.0f)));
    }
  }
  return image;
}

std::string jpeg_file(const TestImage& image, int quality, bool progressive) {
  jpeg_compress_struct info{};
  jpeg_error_mgr error{};
  info.err = jpeg_std_error(&error);  // ends the program on an error, which here is a bug
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = JDIMENSION(image.width);
  info.image_height = JDIMENSION(image.height);
  info.input_components = image.channels;
  info.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const std::size_t stride = std::size_t(image.width) * std::size_t(image.channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  std::free(memory);
  return file;
}

std::string png_file(const TestImage& image, int bits, bool interlaced) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png,
      &file,
      [](png_structp p, png_bytep data, std::size_t bytes) {
        static_cast<std::string*>(png_get_io_ptr(p))
            ->append(reinterpret_cast<const char*>(data), bytes);
      },
      nullptr);
  constexpr int kTypes[] = {
      PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_IHDR(png,
               info,
               png_uint_32(image.width),
               png_uint_32(image.height),
               bits,
               kTypes[image.channels - 1],
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<std::uint8_t> samples;
  for (const std::uint8_t value : image.pixels) {
    samples.push_back(value);
    if (bits == 16) samples.push_back(std::uint8_t(0xff - value));
  }
  const std::size_t stride = samples.size() / std::size_t(image.height);
  std::vector<png_bytep> rows;
  for (int y = 0; y < image.height; ++y) rows.push_back(samples.data() + std::size_t(y) * stride);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace lockstep::test

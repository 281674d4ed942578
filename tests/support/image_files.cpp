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

Picture make_picture(int width,
                     int height,
                     int channels,
                     const std::function<int(int x, int y, int channel)>& value) {
  Picture picture{width, height, channels, {}};
  picture.pixels.reserve(std::size_t(width) * std::size_t(height) * std::size_t(channels));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        picture.pixels.push_back(std::uint8_t(std::clamp(value(x, y, c), 0, 255)));
  return picture;
}

Picture photo_like(int width, int height, std::uint64_t number) {
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
  Picture picture{width, height, 3, {}};
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
        picture.pixels.push_back(std::uint8_t(std::clamp(value + noise, 0.0f, 255.0f)));
    }
  }
  return picture;
}

std::string jpeg_file(const Picture& picture, int quality, bool progressive) {
  jpeg_compress_struct info{};
  jpeg_error_mgr error{};
  info.err = jpeg_std_error(&error);  // ends the program on an error, which here is a bug
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = JDIMENSION(picture.width);
  info.image_height = JDIMENSION(picture.height);
  info.input_components = picture.channels;
  info.in_color_space = picture.channels == 1   ? JCS_GRAYSCALE
                        : picture.channels == 3 ? JCS_RGB
                                                : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const std::size_t stride = std::size_t(picture.width) * std::size_t(picture.channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(picture.pixels.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  std::free(memory);
  return file;
}

std::string png_file(const Picture& picture, int bits, bool interlaced) {
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
               png_uint_32(picture.width),
               png_uint_32(picture.height),
               bits,
               kTypes[picture.channels - 1],
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<std::uint8_t> samples;
  for (const std::uint8_t value : picture.pixels) {
    samples.push_back(value);
    if (bits == 16) samples.push_back(std::uint8_t(0xff - value));
  }
  const std::size_t stride = samples.size() / std::size_t(picture.height);
  std::vector<png_bytep> rows;
  for (int y = 0; y < picture.height; ++y) rows.push_back(samples.data() + std::size_t(y) * stride);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace lockstep::test

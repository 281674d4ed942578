// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "core/data/images/image_crop.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"
#include "tests/support/image_files.h"

namespace lockstep::data {
namespace {

using test::jpeg_file;
using test::make_test_image;
using test::photo_like;
using test::png_file;
using test::TestImage;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

TestImage copy(const ImageView& view) {
  TestImage image{view.width, view.height, 3, {}};
  for (int y = 0; y < view.height; ++y)
    image.pixels.insert(image.pixels.end(),
                        view.pixels + y * view.stride,
                        view.pixels + y * view.stride + view.width * 3);
  return image;
}

/// All pixels of a file.
TestImage decoded(const std::string& file) {
  AnyImageDecoder decoder;
  const ImageSize size = decoder.open("a file", bytes_of(file));
  return copy(decoder.decode(whole(size), size, DecodeScale::quick).view);
}

std::string error(const std::string& file) {
  return error_of<DataError>([&] { decoded(file); });
}

TestImage gradient(int width, int height, int channels) {
  return make_test_image(
      width, height, channels, [&](int x, int y, int c) { return (x * 3 + y * 2 + c * 40) % 256; });
}

double worst_difference(const TestImage& a, const TestImage& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.pixels.size(), b.pixels.size()); ++i)
    worst = std::max(worst, std::abs(double(a.pixels[i]) - double(b.pixels[i])));
  return worst;
}

TEST(JpegDecoder, ExactIsTheWholePictureAtItsOwnScale) {
  const std::string file = jpeg_file(photo_like(160, 120, 1));
  AnyImageDecoder decoder;
  const ImageSize size = decoder.open("a file", bytes_of(file)), target{20, 15};
  EXPECT_LT(decoder.decode(whole(size), target, DecodeScale::quick).view.width, 160);
  decoder.open("a file", bytes_of(file));
  const DecodedCrop exact = decoder.decode(whole(size), target, DecodeScale::exact);
  EXPECT_EQ(exact.view.width, 160);
  EXPECT_EQ(copy(exact.view).pixels, decoded(file).pixels);
}

TEST(PngDecoder, IsLossless) {
  const TestImage image = gradient(37, 23, 3);
  EXPECT_EQ(decoded(png_file(image)).pixels, image.pixels);
  EXPECT_EQ(decoded(png_file(image, 8, /*interlaced=*/true)).pixels, image.pixels);
}

TEST(PngDecoder, ReducesSixteenBitsToEight) {
  const TestImage image = gradient(20, 11, 3), back = decoded(png_file(image, 16));
  // The low byte is 0xff minus the high one: from 0x80 on the nearest of 256 steps is one below.
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const int high = image.pixels[i], sample = high * 256 + 255 - high;
    ASSERT_EQ(back.pixels[i], (sample * 255 + 32895) >> 16) << high;
  }
}

TEST(PngDecoder, MakesRgbOfGreyAndDropsTransparency) {
  for (const int channels : {1, 2, 4}) {
    const TestImage image = gradient(20, 11, channels), back = decoded(png_file(image));
    for (int y = 0; y < 11; ++y)
      for (int x = 0; x < 20; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_EQ(back.at(x, y, c), image.at(x, y, channels == 4 ? c : 0));
  }
}

TEST(JpegDecoder, ComesCloseToThePicture) {
  const TestImage smooth =
      make_test_image(64, 48, 3, [](int x, int y, int c) { return 60 + x + y + c * 20; });
  EXPECT_LE(worst_difference(decoded(jpeg_file(smooth, 95)), smooth), 6);
  EXPECT_LE(worst_difference(decoded(jpeg_file(smooth, 95, /*progressive=*/true)), smooth), 6);
}

TEST(JpegDecoder, MakesRgbOfGrey) {
  const TestImage grey =
      make_test_image(33, 17, 1, [](int x, int y, int) { return 3 * x + 5 * y; });
  const TestImage back = decoded(jpeg_file(grey, 95));
  for (int y = 0; y < 17; ++y)
    for (int x = 0; x < 33; ++x) {
      ASSERT_EQ(back.at(x, y, 0), back.at(x, y, 2));
      ASSERT_NEAR(back.at(x, y, 0), grey.at(x, y, 0), 6);
    }
}

TEST(JpegDecoder, MakesRgbOfInks) {
  // The library writes an Adobe marker with CMYK, after which inks are inverted: 255 is none.
  const TestImage inks = make_test_image(16, 16, 4, [](int, int, int c) {
    return c == 0 ? 200 : c == 1 ? 100 : c == 2 ? 50 : 128;
  });
  const TestImage back = decoded(jpeg_file(inks, 100));
  EXPECT_NEAR(back.at(8, 8, 0), 200 * 128 / 255, 2);
  EXPECT_NEAR(back.at(8, 8, 1), 100 * 128 / 255, 2);
  EXPECT_NEAR(back.at(8, 8, 2), 50 * 128 / 255, 2);
}

// Decoding a part must give the pixels of the whole, or a crop would show what is not there.
TEST(JpegDecoder, ReadsPartsAsTheyAreInTheWhole) {
  for (const bool progressive : {false, true}) {
    const std::string file = jpeg_file(photo_like(203, 151, 1), 90, progressive);
    const TestImage all = decoded(file);
    AnyImageDecoder decoder;
    for (std::int64_t i = 0; i < 60; ++i) {
      const ImageSize size = decoder.open("photo", bytes_of(file));
      const Crop crop = random_crop(1, 0, i, size, 0.05);
      const PixelRect& part = crop.limit;
      const DecodedCrop cut = decoder.decode(crop, {part.width, part.height}, DecodeScale::quick);
      ASSERT_EQ(cut.view.width, part.width);
      ASSERT_EQ(cut.view.height, part.height);
      const TestImage got = copy(cut.view);
      for (int y = 0; y < part.height; ++y)
        for (int x = 0; x < part.width * 3; ++x)
          ASSERT_EQ(got.pixels[std::size_t(y * part.width * 3 + x)],
                    all.pixels[std::size_t(((part.y + y) * all.width + part.x) * 3 + x)])
              << i << ": " << x / 3 << ", " << y << " of " << part.width << "x" << part.height;
    }
  }
}

TEST(JpegDecoder, DecodesSmallerWhereThatIsEnough) {
  const std::string file = jpeg_file(photo_like(800, 600, 2));
  AnyImageDecoder decoder;
  const auto width = [&](ImageSize target) {
    const ImageSize size = decoder.open("photo", bytes_of(file));
    const DecodedCrop decoded_crop = decoder.decode(whole(size), target, DecodeScale::quick);
    EXPECT_DOUBLE_EQ(decoded_crop.box.width, decoded_crop.view.width);
    return decoded_crop.view.width;
  };
  EXPECT_EQ(width({401, 301}), 800);
  EXPECT_EQ(width({400, 300}), 400);
  EXPECT_EQ(width({150, 150}), 200);
  EXPECT_EQ(width({100, 75}), 100);
  EXPECT_EQ(width({1, 1}), 100);
}

TEST(ImageDecoder, TellsKindsByContent) {
  EXPECT_THAT(error("GIF89a......"),
              HasSubstr("a file: expected a JPEG or PNG image, but the file starts with the bytes "
                        "47 49 46 38 39 61"));
  EXPECT_THAT(error(""), HasSubstr("a file: the file is empty"));
  EXPECT_THAT(error("\xff"), HasSubstr("starts with the bytes ff |"));
  EXPECT_THAT(error("text"), HasSubstr("`skip_bad_samples`"));
}

TEST(ImageDecoder, SaysWhereAJpegEnds) {
  const std::string file = jpeg_file(photo_like(100, 80, 1));
  for (const std::size_t bytes : {file.size() - 2, file.size() / 2, std::size_t{700}}) {
    const std::string message = error(file.substr(0, bytes));
    EXPECT_THAT(message, HasSubstr("a file: "));
    EXPECT_THAT(message, HasSubstr("byte " + std::to_string(bytes)));
  }
}

// Each start of a file is an error, never a crash or made-up pixels.
TEST(ImageDecoder, RefusesEveryBeginningOfAFile) {
  for (const std::string& file : {jpeg_file(gradient(24, 16, 3)),
                                  jpeg_file(gradient(24, 16, 3), 90, true),
                                  png_file(gradient(24, 16, 3))})
    for (std::size_t bytes = 0; bytes < file.size(); ++bytes)
      ASSERT_NE(error(file.substr(0, bytes)), "") << bytes << " of " << file.size();
}

TEST(ImageDecoder, SurvivesAnyDamagedByte) {
  for (const std::string& file : {jpeg_file(gradient(24, 16, 3)),
                                  jpeg_file(gradient(24, 16, 3), 90, true),
                                  png_file(gradient(24, 16, 3), 8, true)})
    for (std::size_t i = 0; i < file.size(); ++i)
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string damaged = file;
        damaged[i] = char(damaged[i] ^ change);
        error(damaged);  // pixels or DataError; anything else ends the test
      }
}

TEST(ImageDecoder, RefusesGiantsBeforeAllocating) {
  std::string jpeg = jpeg_file(gradient(8, 8, 3));
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  for (const std::size_t at : {frame + 5, frame + 7}) {  // height, width
    jpeg[at] = char(60000 >> 8);
    jpeg[at + 1] = char(60000 & 0xff);
  }
  EXPECT_THAT(error(jpeg),
              HasSubstr("a file: the header says 60000x60000 pixels, 3600000000 in all; expected "
                        "at most 178956970"));

  std::string png = png_file(gradient(8, 8, 3));
  for (const std::size_t at : {16u, 20u}) png.replace(at, 4, std::string("\x00\x00\xea\x60", 4));
  // The header chunk's sum, over its name and 13 bytes, has to fit again.
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17);
  for (int i = 0; i < 4; ++i) png[std::size_t(29 + i)] = char(sum >> (24 - 8 * i));
  EXPECT_THAT(error(png),
              HasSubstr("a file: the header says 60000x60000 pixels, 3600000000 in all; expected "
                        "at most 178956970"));
}

TEST(ImageDecoder, TheLimitOfPixelsIsASetting) {
  for (const std::string& file : {jpeg_file(gradient(20, 10, 3)), png_file(gradient(20, 10, 3))}) {
    AnyImageDecoder decoder;
    EXPECT_EQ(decoder.open("a file", bytes_of(file), 200), (ImageSize{20, 10}));
    const std::string message =
        error_of<DataError>([&] { decoder.open("a file", bytes_of(file), 199); });
    EXPECT_THAT(message, HasSubstr("20x10"));
    EXPECT_THAT(message, HasSubstr("`max_pixels` 200"));
  }
}

/// A progressive file with its first scan, of the means of blocks, `copies` times more: each goes
/// through all pixels again.
std::string with_more_scans(const std::string& file, int copies) {
  const std::size_t scan = file.find("\xff\xda");
  std::size_t end = scan + 2;  // of its data, in which 0xff is followed by 0
  while ((end = file.find('\xff', end)) != file.npos && file[end + 1] == '\0') end += 2;
  std::string more = file.substr(0, end);
  for (int i = 0; i < copies; ++i) more += file.substr(scan, end - scan);
  return more + file.substr(end);
}

TEST(JpegDecoder, RefusesMoreScansThanEncodersWrite) {
  const std::string file = jpeg_file(gradient(64, 48, 3), 90, true);
  EXPECT_EQ(decoded(with_more_scans(file, 20)).pixels, decoded(file).pixels);
  const std::string message = error(with_more_scans(file, max_scans({64, 48})));
  EXPECT_THAT(message, HasSubstr("a file: "));
  EXPECT_THAT(message, HasSubstr("scans"));
  EXPECT_THAT(message, HasSubstr("`skip_bad_samples`"));
  // The next file is none of that one's business.
  AnyImageDecoder decoder;
  const std::string bad = with_more_scans(file, 300);
  EXPECT_THROW(
      decoder.decode(whole(decoder.open("bad", bytes_of(bad))), {8, 8}, DecodeScale::exact),
      DataError);
  EXPECT_NO_THROW(
      decoder.decode(whole(decoder.open("good", bytes_of(file))), {8, 8}, DecodeScale::exact));
}

TEST(JpegDecoder, ALargeImageMayHaveFewerScans) {
  EXPECT_EQ(max_scans({640, 480}), 200);
  EXPECT_EQ(max_scans({9900, 9900}), 40);
  EXPECT_EQ(max_scans({65500, 16384}), 40);
}

}  // namespace
}  // namespace lockstep::data

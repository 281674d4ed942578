// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <png.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/images/image_decoder.h"

namespace lockstep::data {
namespace {

/// Bytes that a chunk in addition to the pixels (text, profiles) may occupy.
constexpr png_alloc_size_t kMaxChunkBytes = 8u << 20;
/// Deflate's best case is 1032:1.
constexpr std::size_t kMaxCompression = 1040;

class PngDecoder final : public ImageDecoder {
 public:
  PngDecoder() = default;
  ~PngDecoder() override { close(); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize open(const std::string& name,
                 std::span<const std::byte> file,
                 std::int64_t max_pixels) override {
    close();
    name_ = name;
    file_ = file;
    position_ = 0;
    if (pixels_.size() > kKeptPixelBytes) pixels_ = {};
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    LOCKSTEP_CHECK(info_ != nullptr, OutOfMemory, "png: no memory for a decoder");
    if (!read_header()) fail();
    check_image_size(
        name_, png_get_image_width(png_, info_), png_get_image_height(png_, info_), max_pixels);
    check_justified();
    return {int(png_get_image_width(png_, info_)), int(png_get_image_height(png_, info_))};
  }

  DecodedCrop decode(const Crop& crop, ImageSize /*target*/, DecodeScale /*scale*/) override {
    if (!choose_format()) fail();
    const std::size_t stride = png_get_rowbytes(png_, info_),
                      height = png_get_image_height(png_, info_);
    LOCKSTEP_ASSERT(stride == std::size_t(png_get_image_width(png_, info_)) * 3);
    reserve_pixels(pixels_, stride * height);
    rows_.resize(height);
    for (std::size_t y = 0; y < height; ++y) rows_[y] = pixels_.data() + y * stride;
    if (!read_rows()) fail();
    const PixelRect& part = crop.limit;
    return {{pixels_.data() + std::size_t(part.y) * stride + std::size_t(part.x) * 3,
             std::int64_t(stride),
             part.width,
             part.height},
            {crop.box.x - part.x, crop.box.y - part.y, crop.box.width, crop.box.height}};
  }

 private:
  // As for JPEG: functions between setjmp and longjmp hold nothing of their own.
  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    png_set_read_fn(png_, this, on_read);
    // The library's own limit is a million pixels a side; check_image_size() says it better.
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    png_set_chunk_cache_max(png_, 128);
    png_read_info(png_, info_);
    return true;
  }

  bool choose_format() {
    if (setjmp(jump_) != 0) return false;
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows() {
    if (setjmp(jump_) != 0) return false;
    png_read_image(png_, rows_.data());
    png_read_end(png_, nullptr);
    return true;
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof self->message_, "%s", message);
    std::longjmp(self->jump_, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}

  static void on_read(png_structp png, png_bytep to, std::size_t bytes) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (bytes > self->file_.size() - self->position_) {
      self->position_ = self->file_.size();
      png_error(png, "truncated: the file ends before the image");
    }
    std::memcpy(to, self->file_.data() + self->position_, bytes);
    self->position_ += bytes;
  }

  /// Memory is taken for all pixels before the first is decoded.
  void check_justified() const {
    const std::size_t width = png_get_image_width(png_, info_),
                      height = png_get_image_height(png_, info_);
    if (png_get_rowbytes(png_, info_) * height / kMaxCompression > file_.size())
      throw DataError(fmt::format("{}: the header says {}x{} pixels, which {} bytes cannot hold",
                                  as_written(name_),
                                  width,
                                  height,
                                  file_.size()),
                      "replace the file, or train with `skip_bad_samples`");
  }

  void close() {
    if (png_ != nullptr) png_destroy_read_struct(&png_, &info_, nullptr);
    png_ = nullptr;
    info_ = nullptr;
  }

  [[noreturn]] void fail() {
    throw DataError(
        fmt::format("{}: damaged PNG at byte {}: {}", as_written(name_), position_, message_),
        "replace the file, or train with `skip_bad_samples`");
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[256] = {};
  std::string name_;
  std::span<const std::byte> file_;
  std::size_t position_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<png_bytep> rows_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_png_decoder() { return std::make_unique<PngDecoder>(); }

}  // namespace lockstep::data

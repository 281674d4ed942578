// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>

// clang-format off
#include <jpeglib.h>
#include <jerror.h>  // needs what the line above defines
#include <fmt/format.h>
// clang-format on

#include "core/base/parameter_names.h"
#include "core/data/images/image_decoder.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr int kFull = 8;  // scales are counted in eighths, as the library does
/// 64 pixels take at least a bit (arithmetic coding could do with less, on a blank image).
constexpr std::size_t kMaxPixelsPerByte = 1024;

constexpr const char* kBadImageHint = "replace the file, or train with `skip_bad_samples`";

/// What the library's C callbacks share with the decoder. `error` comes first: callbacks cast.
struct ErrorState {
  jpeg_error_mgr error{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
  int max_scans = 0;
  bool too_many_scans = false;
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  state->error.format_message(info, state->message);
  std::longjmp(state->jump, 1);
}

/// Some warnings mean made-up pixels; the others (odd markers, bytes between them) do not.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      leave(info);
    default:
      break;
  }
}

void on_progress(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= state->max_scans) return;
  state->too_many_scans = true;
  std::longjmp(state->jump, 1);
}

/// Where the part of the file after `begin` holds an end-of-image marker: in compressed data 0xff
/// is always followed by something else.
bool has_end(std::span<const std::byte> file, std::size_t begin) {
  for (std::size_t i = file.size(); i >= begin + 2; --i)
    if (file[i - 1] == std::byte{0xd9} && file[i - 2] == std::byte{0xff}) return true;
  return false;
}

class JpegDecoder final : public ImageDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&state_.error);
    state_.error.error_exit = leave;
    state_.error.emit_message = on_message;
    state_.error.output_message = [](j_common_ptr) {};
    if (setjmp(state_.jump) != 0) throw OutOfMemory("jpeg: no memory for a decoder");
    jpeg_create_decompress(&info_);
    progress_.progress_monitor = on_progress;
    info_.progress = &progress_;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize open(const std::string& name,
                 std::span<const std::byte> file,
                 std::int64_t max_pixels) override {
    name_ = name;
    file_ = file;
    jpeg_abort_decompress(&info_);
    state_.error.num_warnings = 0;
    state_.too_many_scans = false;
    if (pixels_.size() > kKeptPixelBytes) pixels_ = {};
    if (!read_header()) fail();
    check_image_size(name_, info_.image_width, info_.image_height, max_pixels);
    check_justified();
    if (!has_end(file_, position()))
      throw DataError(
          fmt::format("{}: truncated: the file ends at byte {} without the end of the image",
                      as_written(name_),
                      file_.size()),
          kBadImageHint);
    const ImageSize size{int(info_.image_width), int(info_.image_height)};
    state_.max_scans = max_scans(size);
    return size;
  }

  DecodedCrop decode(const Crop& crop, ImageSize target, DecodeScale allowed) override {
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    info_.scale_num =
        unsigned(allowed == DecodeScale::exact ? kFull : choose_scale(crop.box, target));
    info_.scale_denom = kFull;
    const Crop scaled = scale(crop, int(info_.scale_num));
    part_ = contributing(scaled, target);
    if (!start()) fail();
    // The library widens the columns to whole blocks; those in front are skipped again below.
    const auto channels = std::size_t(info_.output_components);
    stride_ = std::size_t(info_.output_width) * channels;
    reserve_pixels(pixels_, stride_ * std::size_t(part_.height));
    if (!read_rows()) fail();
    jpeg_abort_decompress(&info_);
    if (inks) to_rgb();
    const std::size_t skipped = std::size_t(part_.x) - offset_;
    return {{pixels_.data() + skipped * 3, std::int64_t(stride_), part_.width, part_.height},
            {scaled.box.x - part_.x, scaled.box.y - part_.y, scaled.box.width, scaled.box.height}};
  }

 private:
  // Between setjmp and a longjmp no object with a destructor may live: hence functions that hold
  // nothing of their own.
  bool read_header() {
    if (setjmp(state_.jump) != 0) return false;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool start() {
    if (setjmp(state_.jump) != 0) return false;
    jpeg_start_decompress(&info_);
    // One column more on each side, from which colours of lower resolution are interpolated.
    offset_ = JDIMENSION(std::max(0, part_.x - 1));
    JDIMENSION width =
        std::min(info_.output_width, JDIMENSION(part_.x + part_.width + 1)) - offset_;
    if (width < info_.output_width) jpeg_crop_scanline(&info_, &offset_, &width);
    return true;
  }

  bool read_rows() {
    if (setjmp(state_.jump) != 0) return false;
    if (part_.y > 0) jpeg_skip_scanlines(&info_, JDIMENSION(part_.y));
    constexpr int kRows = 16;
    JSAMPROW rows[kRows];
    for (int y = 0; y < part_.height;) {
      const int count = std::min(kRows, part_.height - y);
      for (int i = 0; i < count; ++i) rows[i] = pixels_.data() + std::size_t(y + i) * stride_;
      y += int(jpeg_read_scanlines(&info_, rows, JDIMENSION(count)));
    }
    return true;
  }

  /// Only 1, 2, 4 and 8 eighths have vectorised transforms; the others cost more than they save.
  static int choose_scale(const Box& box, ImageSize target) {
    for (const int eighths : {1, 2, 4})
      if (box.width * eighths >= double(target.width) * kFull &&
          box.height * eighths >= double(target.height) * kFull)
        return eighths;
    return kFull;
  }

  Crop scale(const Crop& crop, int eighths) const {
    if (eighths == kFull) return crop;
    const double factor = double(eighths) / kFull;
    const auto down = [&](int x) { return x * eighths / kFull; };
    const auto up = [&](int x) { return (x * eighths + kFull - 1) / kFull; };
    const PixelRect& limit = crop.limit;
    Crop scaled{{crop.box.x * factor,
                 crop.box.y * factor,
                 crop.box.width * factor,
                 crop.box.height * factor},
                {down(limit.x), down(limit.y), 0, 0}};
    scaled.limit.width = up(limit.x + limit.width) - scaled.limit.x;
    scaled.limit.height = up(limit.y + limit.height) - scaled.limit.y;
    return scaled;
  }

  /// Adobe's programs store inks inverted and say who they are; light is what both leave over.
  void to_rgb() {
    const int flip = info_.saw_Adobe_marker ? 0 : 255;
    const std::size_t pixels = stride_ / 4 * std::size_t(part_.height);
    std::uint8_t* to = pixels_.data();
    for (const std::uint8_t* from = to; from != pixels_.data() + pixels * 4; from += 4, to += 3) {
      const int key = from[3] ^ flip;
      for (int c = 0; c < 3; ++c) to[c] = std::uint8_t(((from[c] ^ flip) * key + 127) / 255);
    }
    stride_ = stride_ / 4 * 3;
  }

  /// Memory is taken for all pixels before the first is decoded.
  void check_justified() const {
    const std::size_t pixels = std::size_t{info_.image_width} * info_.image_height;
    if (pixels / kMaxPixelsPerByte > file_.size())
      throw DataError(fmt::format("{}: the header says {}x{} pixels, which {} bytes cannot hold",
                                  as_written(name_),
                                  info_.image_width,
                                  info_.image_height,
                                  file_.size()),
                      kBadImageHint);
  }

  std::size_t position() const {
    return file_.size() - (info_.src == nullptr ? 0 : info_.src->bytes_in_buffer);
  }

  [[noreturn]] void fail() {
    if (state_.too_many_scans)
      throw DataError(
          fmt::format("{}: a JPEG of more than {} scans, the most that {}x{} pixels may have",
                      as_written(name_),
                      state_.max_scans,
                      info_.image_width,
                      info_.image_height),
          "save the image anew with fewer scans, or train with `skip_bad_samples`");
    // At the end of its input the library reads two bytes of its own.
    const std::size_t at = std::min(position(), file_.size());
    const std::string_view message = state_.message;
    const bool ended = state_.error.msg_code == JWRN_JPEG_EOF;
    throw DataError(fmt::format("{}: damaged JPEG at byte {}: {}",
                                as_written(name_),
                                ended ? file_.size() : at,
                                message),
                    kBadImageHint);
  }

  ErrorState state_;
  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  std::string name_;
  std::span<const std::byte> file_;
  PixelRect part_;
  JDIMENSION offset_ = 0;  // first column that the library gives out
  std::size_t stride_ = 0;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_jpeg_decoder() { return std::make_unique<JpegDecoder>(); }

}  // namespace lockstep::data

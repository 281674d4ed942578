// SPDX-License-Identifier: Apache-2.0
#include "core/io/tokenizer/text_blocks.h"

#include <algorithm>
#include <span>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/utf8.h"
#include "core/data/bpe/pre_tokenizer.h"

namespace lockstep::io {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes at the begin of `text` that the first bytes of a valid character could be, at least 1:
/// table 3-7 of Unicode 16.0.
std::size_t maximal_subpart(std::string_view text) {
  const auto byte = [&](std::size_t i) { return unsigned(static_cast<unsigned char>(text[i])); };
  const unsigned lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  std::size_t count = 1;
  while (count < bytes && count < text.size() && byte(count) >= low && byte(count) <= high) {
    ++count;
    low = 0x80;
    high = 0xBF;
  }
  return count;
}

/// How many bytes a character with this first byte has; 1 where no character begins so.
std::size_t promised_bytes(char first) {
  const auto lead = static_cast<unsigned char>(first);
  if (lead < 0xC2 || lead > 0xF4) return 1;
  return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

}  // namespace

TextBlocks::TextBlocks(const TextRange& range,
                       DocumentUnit unit,
                       InvalidUtf8 invalid,
                       data::WordPattern pattern,
                       MayCut may_cut,
                       std::size_t read_bytes)
    : range_(range),
      file_(range.file),
      unit_(unit),
      invalid_(invalid),
      pattern_(pattern),
      may_cut_(std::move(may_cut)),
      read_bytes_(read_bytes),
      read_(range.begin) {}

bool TextBlocks::fill() {
  const std::uint64_t left = range_.end - read_;
  raw_.resize(std::size_t(std::min<std::uint64_t>(left, read_bytes_)));
  file_.read(range_.file, read_, std::as_writable_bytes(std::span(raw_)));
  read_ += raw_.size();
  append_valid(raw_, read_ == range_.end);
  return read_ < range_.end;
}

void TextBlocks::append_valid(std::string_view bytes, bool is_end) {
  std::string joined;
  if (!unfinished_.empty()) {
    joined = unfinished_ + std::string(bytes);
    bytes = joined;
    unfinished_.clear();
  }
  std::size_t at = 0, valid = 0;  // what is valid from there on is appended together
  while (at < bytes.size()) {
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const int length = decode_utf8(bytes, at).bytes;
    if (length > 0) {
      at += std::size_t(length);
      continue;
    }
    const std::size_t part = maximal_subpart(bytes.substr(at));
    text_.append(bytes.substr(valid, at - valid));
    if (!is_end && at + part == bytes.size() && part < promised_bytes(bytes[at])) {
      unfinished_ = bytes.substr(at);
      return;
    }
    LOCKSTEP_CHECK(invalid_ == InvalidUtf8::replaced,
                   DataError,
                   "{}: invalid UTF-8 at byte {} (0x{:02x}); convert the file, for example with "
                   "iconv -t UTF-8",
                   as_written(range_.file),
                   read_ - bytes.size() + at,
                   unsigned(static_cast<unsigned char>(bytes[at])));
    text_ += kReplacement;
    at += part;
    valid = at;
  }
  text_.append(bytes.substr(valid));
}

std::size_t TextBlocks::find_cut() const {
  std::size_t end = text_.size();
  if (unit_ == DocumentUnit::line)
    if (const std::size_t line = text_.rfind('\n'); line != text_.npos) return line + 1;
  for (;;) {
    const std::size_t cut = data::last_cut(std::string_view(text_).substr(0, end), 0, pattern_);
    if (cut == std::string_view::npos || may_cut_(text_, cut)) return cut;
    end = cut;
  }
}

bool TextBlocks::next(TextBlock& block) {
  block = {};
  if (over_) return false;
  std::size_t cut = std::string_view::npos;
  while (cut == std::string_view::npos) {
    const bool more = fill();
    if (!more) {
      over_ = true;
      cut = text_.size();
      break;
    }
    cut = find_cut();
    LOCKSTEP_CHECK(cut != std::string_view::npos || text_.size() < data::kMaxWordBytes,
                   DataError,
                   "{}: a word of more than {} bytes ends at byte {}: is this a text file?",
                   as_written(range_.file),
                   data::kMaxWordBytes,
                   read_);
  }
  block.text = text_.substr(0, cut);
  text_.erase(0, cut);
  block.bytes = read_ - range_.begin - delivered_;
  delivered_ += block.bytes;
  unit_ == DocumentUnit::file ? mark_file(block, over_) : mark_lines(block, over_);
  return true;
}

void TextBlocks::mark_file(TextBlock& block, bool is_end) {
  if (block.text.empty() && part_ == data::TextPart::first) return;  // an empty file
  block.spans.push_back({.begin = 0,
                         .end = block.text.size(),
                         .part = part_,
                         .ends_document = is_end && range_.ends_document});
  part_ = data::TextPart::later;
}

void TextBlocks::mark_lines(TextBlock& block, bool is_end) {
  const std::string& text = block.text;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t found = text.find('\n', begin);
    const bool ends = found != text.npos;
    const std::size_t line = ends ? found : text.size();
    const std::size_t end = line - (ends && line > begin && text[line - 1] == '\r');  // of CRLF
    if (end > begin || part_ == data::TextPart::later)
      block.spans.push_back(
          {.begin = begin, .end = end, .part = part_, .ends_document = ends || is_end});
    part_ = ends ? data::TextPart::first : data::TextPart::later;
    begin = line + 1;
  }
}

}  // namespace lockstep::io

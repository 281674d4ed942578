// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/printable.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/text/utf8.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxLineBytes = 2000;

/// Whether a terminal or a reader could be deceived by it: C0, DEL and C1 controls, line and
/// paragraph separators, and the marks of writing direction (Unicode, UAX #9, section 2).
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string escaped(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case 0:
      return "\\0";
    default:
      return code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
  }
}

std::string escape_controls(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character next = decode_utf8(text, at);
    if (next.bytes == 0)
      result += fmt::format("\\x{:02x}", unsigned(static_cast<unsigned char>(text[at])));
    else if (is_control(next.code))
      result += escaped(next.code);
    else
      result += text.substr(at, std::size_t(next.bytes));
    at += std::size_t(std::max(next.bytes, 1));
  }
  return result;
}

/// `at`, or a little before it, where a character of UTF-8 begins.
std::size_t begin_of_character(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 0; back < kLongest && back <= at; ++back)
    if (at - back < text.size() && (static_cast<unsigned char>(text[at - back]) & 0xC0) != 0x80)
      return at - back;
  return at;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return escape_controls(text);
  // What stands at the end of a message says what was expected.
  const std::size_t tail = begin_of_character(text, text.size() - max_bytes / 3);
  const std::size_t head = begin_of_character(text, max_bytes - max_bytes / 3);
  return fmt::format("{} [... of {} bytes ...] {}",
                     escape_controls(text.substr(0, head)),
                     text.size(),
                     escape_controls(text.substr(tail)));
}

std::string printable_start(std::string_view text, std::size_t max_characters) {
  std::size_t end = 0;
  for (std::size_t characters = 0; end < text.size(); ++characters) {
    if (characters == max_characters) return escape_controls(text.substr(0, end)) + "...";
    end += std::size_t(std::max(decode_utf8(text, end).bytes, 1));
  }
  return escape_controls(text);
}

std::string printable_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    for (bool first = true; first || !line.empty(); first = false) {
      const std::size_t tab = line.size() > kMaxLineBytes ? line.npos : line.find('\t');
      result += printable(line.substr(0, tab), kMaxLineBytes);
      if (tab == line.npos) break;
      result += '\t';
      line.remove_prefix(tab + 1);
    }
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace lockstep

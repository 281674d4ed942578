// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/fields.h"

#include <charconv>
#include <fmt/format.h>

#include "core/base/csv_field.h"
#include "core/base/utf8.h"

namespace lockstep {
namespace {

bool is_control_code(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

std::string escaped_bytes(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  std::string text;
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", unsigned(std::uint8_t(byte)));
  return text;
}

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string shown(std::string_view text, int most) {
  std::string result;
  int characters = 0;
  for (std::size_t at = 0; at < text.size(); ++characters) {
    if (characters == most) return result + "...";
    const Utf8Character next = decode_utf8(text, at);
    const std::string_view bytes = text.substr(at, std::size_t(next.bytes > 0 ? next.bytes : 1));
    result +=
        next.bytes == 0 || is_control_code(next.code) ? escaped_bytes(bytes) : std::string(bytes);
    at += bytes.size();
  }
  return result;
}

std::string csv_name(std::string_view text) {
  const bool formula =
      !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
  return csv_field(formula && !is_number(text) ? "'" + std::string(text) : std::string(text));
}

}  // namespace lockstep

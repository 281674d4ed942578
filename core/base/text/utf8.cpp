// SPDX-License-Identifier: Apache-2.0
#include "core/base/text/utf8.h"

namespace lockstep {

Utf8Character decode_utf8(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{std::uint8_t(text[offset + i])}; };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || offset + std::size_t(bytes) > text.size()) return {};
  std::uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (int i = 1; i < bytes; ++i) {
    if ((byte(std::size_t(i)) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(std::size_t(i)) & 0x3F);
  }
  constexpr std::uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kMin[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const int bytes = decode_utf8(text, at).bytes;
    if (bytes == 0) return false;
    at += std::size_t(bytes);
  }
  return true;
}

std::string encode_utf8(std::uint32_t code) {
  const auto tail = [&](int shift) { return char(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {char(code)};
  if (code < 0x800) return {char(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {char(0xE0 | code >> 12), tail(6), tail(0)};
  return {char(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

std::string to_valid_utf8(std::string_view text) {
  constexpr std::uint32_t kReplacement = 0xFFFD;
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto bytes = std::size_t(decode_utf8(text, at).bytes);
    result += bytes == 0 ? encode_utf8(kReplacement) : std::string(text.substr(at, bytes));
    at += bytes == 0 ? 1 : bytes;
  }
  return result;
}

}  // namespace lockstep

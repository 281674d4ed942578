// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/byte_alphabet.h"

#include <algorithm>

#include "core/base/text/utf8.h"

namespace lockstep::data {
namespace {

constexpr std::uint32_t kFirstOther = 0x100, kMaxCharacter = 0x143;

bool is_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<std::uint32_t, 256> make_characters() {
  std::array<std::uint32_t, 256> characters{};
  std::uint32_t next = kFirstOther;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    characters[byte] = is_itself(byte) ? byte : next++;
  return characters;
}

std::array<unsigned char, 256> make_order() {
  std::array<unsigned char, 256> order{};
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<unsigned char>(i);
  std::ranges::sort(order, {}, [](unsigned char byte) { return byte_characters()[byte]; });
  return order;
}

std::array<std::int16_t, kMaxCharacter + 1> make_bytes() {
  std::array<std::int16_t, kMaxCharacter + 1> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes[byte_characters()[byte]] = std::int16_t(byte);
  return bytes;
}

}  // namespace

const std::array<std::uint32_t, 256>& byte_characters() {
  static const std::array<std::uint32_t, 256> characters = make_characters();
  return characters;
}

const std::array<unsigned char, 256>& bytes_in_order() {
  static const std::array<unsigned char, 256> order = make_order();
  return order;
}

std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    text += encode_utf8(byte_characters()[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  static const auto bytes = make_bytes();
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    if (character.bytes == 0 || character.code > kMaxCharacter || bytes[character.code] < 0)
      return std::nullopt;
    result += char(bytes[character.code]);
    at += std::size_t(character.bytes);
  }
  return result;
}

}  // namespace lockstep::data

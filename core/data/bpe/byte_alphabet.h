// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

/// The character that is written for each byte in files of byte-level tokenizers: printable ones
/// are themselves, the others U+0100 and following in the order of the bytes (GPT-2's encoder.py,
/// bytes_to_unicode()).
const std::array<std::uint32_t, 256>& byte_characters();

/// All bytes in ascending order of their characters, as vocabularies list them.
const std::array<unsigned char, 256>& bytes_in_order();

/// `bytes` as such characters, in UTF-8.
std::string to_byte_characters(std::string_view bytes);
/// The bytes that such characters stand for; nothing where `text` has other characters, or is not
/// UTF-8.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace lockstep::data

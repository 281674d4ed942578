// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

struct Utf8Character {
  std::uint32_t code = 0;
  int bytes = 0;  ///< 0: not valid UTF-8
};

/// The character at `offset` < text.size(). Overlong forms, surrogates and codes past U+10FFFF are
/// not valid (RFC 3629, section 4).
Utf8Character decode_utf8(std::string_view text, std::size_t offset);
/// Whether all of `text` is valid UTF-8.
bool is_utf8(std::string_view text);
std::string encode_utf8(std::uint32_t code);
/// `text` with U+FFFD in place of each byte that is not part of valid UTF-8.
std::string to_valid_utf8(std::string_view text);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::data {

/// What the patterns of words distinguish: \p{L}, \p{N}, \s (White_Space) and the rest.
enum class CharacterClass : std::uint8_t { other, letter, number, space };

/// The class of a code point in Unicode 16.0, of codes above U+10FFFF `other`.
CharacterClass character_class(std::uint32_t code);

}  // namespace lockstep::data

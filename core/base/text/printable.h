// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// Text of a file, its name or the data in it, as a terminal may show it: control characters, bytes
/// that are not UTF-8 and marks that change the direction of writing become "\n", "\x1b", "\u202e";
/// of more than `max_bytes` the middle is left away, and how many bytes there were is said.
std::string printable(std::string_view text, std::size_t max_bytes = 200);

/// The same for a column or a list: of more than `max_characters` only the first, and "..." after
/// them.
std::string printable_start(std::string_view text, std::size_t max_characters);

/// The same for what is said in whole lines: newlines and tabs stay, and each line may have 2,000
/// bytes.
std::string printable_lines(std::string_view text);

}  // namespace lockstep

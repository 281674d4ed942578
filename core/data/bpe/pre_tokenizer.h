// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/tokens/byte_pairs.h"

namespace lockstep::data {

/// Where the word ends that begins at `at` < text.size(). The words of a text follow one another
/// without gaps. `text` is valid UTF-8.
std::size_t word_end(std::string_view text, std::size_t at, WordPattern pattern);

/// The largest place in (at_least, text.size()) at which `text` may be cut so that the words of
/// both parts are those of the whole, whatever follows: after a letter or a digit where its like
/// does not follow, and between a character and white space; between digits that are words of their
/// own, as those of WordPattern::digits and Qwen 2's pattern are; of Llama 3's and Qwen 2's
/// patterns, whose words may end with line breaks, also after a line break where no white space
/// follows, but not before one that follows a sign. npos: there is none.
std::size_t last_cut(std::string_view text, std::size_t at_least, WordPattern pattern);

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::data {

/// Where the word ends that begins at `at` < text.size(), by GPT-2's pattern (Radford et al. 2019;
/// encoder.py of its release):
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// The words of a text follow one another without gaps. `text` is valid UTF-8.
std::size_t word_end(std::string_view text, std::size_t at);

/// The largest place in (at_least, text.size()) at which `text` may be cut so that the words of
/// both parts are those of the whole, whatever follows: after a letter or a digit where neither
/// follows, and between a character and white space. npos: there is none.
std::size_t last_cut(std::string_view text, std::size_t at_least);

/// The first such place in [at, text.size()); npos: there is none.
std::size_t first_cut(std::string_view text, std::size_t at);

}  // namespace lockstep::data

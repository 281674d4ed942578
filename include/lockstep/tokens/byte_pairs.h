// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::data {

/// A text that is one token wherever it is found, before anything else is cut.
struct AddedToken {
  std::string text = {};
  std::int32_t id = 0;
  bool special = true;      ///< marks structure, such as the end of a text
  bool normalized = false;  ///< is looked for after those that are not
  bool operator==(const AddedToken&) const = default;
};

/// How a text is cut into words, within which pairs of bytes merge. \p{L}, \p{N} and \s are
/// Unicode's.
enum class WordPattern : std::uint8_t {
  /// GPT-2's (Radford et al. 2019; encoder.py of its release):
  ///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  gpt2,
  /// SmolLM's and StarCoder's: each \p{N} is a word, and what lies between them is cut by GPT-2's.
  digits,
  /// Llama 3's, and cl100k_base's of OpenAI:
  ///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  ///    ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  llama3,
  /// Qwen 2's: as Llama 3's, with \p{N} for \p{N}{1,3}.
  qwen2
};

/// What a byte-level byte-pair encoding consists of.
struct BytePairs {
  std::vector<std::string> tokens = {};  ///< the bytes of each token; empty: no such token
  /// Pairs of tokens that become one, the first of them first. The bytes of both together are a
  /// token.
  std::vector<std::pair<std::int32_t, std::int32_t>> merges = {};
  std::vector<AddedToken> added = {};
  bool add_prefix_space = false;  ///< a text that does not begin with a space gets one
  WordPattern pattern = WordPattern::gpt2;
  bool ignore_merges = false;  ///< a word that is a token becomes it, whatever merges make of it
};

/// A word, what the pattern does not cut, of more bytes is refused.
inline constexpr std::size_t kMaxWordBytes = std::size_t{4} << 20;

}  // namespace lockstep::data

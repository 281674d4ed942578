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

/// What a byte-level byte-pair encoding consists of.
struct BytePairs {
  std::vector<std::string> tokens = {};  ///< the bytes of each token; empty: no such token
  /// Pairs of tokens that become one, the first of them first. The bytes of both together are a
  /// token.
  std::vector<std::pair<std::int32_t, std::int32_t>> merges = {};
  std::vector<AddedToken> added = {};
  bool add_prefix_space = false;  ///< a text that does not begin with a space gets one
};

/// A word, what GPT-2's pattern does not cut, of more bytes is refused.
inline constexpr std::size_t kMaxWordBytes = std::size_t{4} << 20;

}  // namespace lockstep::data

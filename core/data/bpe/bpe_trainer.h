// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/tokens/byte_pairs.h"

namespace lockstep::data {

/// How often each word occurs in texts.
class WordCounts {
 public:
  /// Adds the words of a part of a text: valid UTF-8 that ends where it may be cut, or with the
  /// text. What lies between `added` tokens is a text of its own.
  void add(std::string_view text, const std::vector<AddedToken>& added);
  void add(const WordCounts& other);

  std::int64_t bytes() const { return bytes_; }
  std::size_t different() const { return counts_.size(); }

 private:
  friend BytePairs train_byte_pairs(const WordCounts&, std::int64_t, std::vector<std::string>);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
  std::int64_t bytes_ = 0;
};

/// Byte pairs of `vocabulary` tokens: the 256 bytes, in the order of their characters in a file;
/// the pairs that occur most often in the words, each made a token before the next is counted
/// (Sennrich et al. 2016, algorithm 1), of equally frequent ones that of the smaller numbers; and
/// `added` texts as special tokens, last. Fewer tokens where no pair is left. Merges are those that
/// Hugging Face's BpeTrainer makes with the alphabet of bytes. Throws ConfigError: a vocabulary
/// without room for the bytes and the added texts.
BytePairs train_byte_pairs(const WordCounts& words,
                           std::int64_t vocabulary,
                           std::vector<std::string> added);

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/data/bpe/tokenizer_model.h"

namespace lockstep::data {

/// What of a longer text a part is.
enum class TextPart : std::uint8_t { first, later };

/// Encodes parts of texts for one thread, and remembers the tokens of words.
class TokenEncoder {
 public:
  /// `model` must outlive it.
  explicit TokenEncoder(const TokenizerModel& model);

  /// Appends the tokens of `text`, valid UTF-8 that ends where a text may be cut (last_cut() and
  /// TokenizerModel::may_cut()), or with the text. Throws DataError: a byte that is not a token; a
  /// word of more than kMaxWordBytes.
  void encode(std::string_view text, TextPart part, std::vector<std::int32_t>& tokens);

 private:
  /// A short word and its tokens; a cache line.
  struct Known {
    static constexpr std::size_t kMaxBytes = 23, kMaxTokens = 9;
    using Key = std::array<std::uint64_t, 3>;  ///< the bytes, zeros, and their count
    Key key{};
    std::array<std::int32_t, kMaxTokens> tokens{};
    std::int32_t count = 0;
  };
  struct Symbol {
    std::int32_t token = -1, previous = -1, next = -1;
  };
  struct Candidate {
    std::int32_t rank = 0, place = 0, left = 0, right = 0;
    /// The order of a heap: the lowest rank, of equal ones the first in the word.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };

  void encode_later(std::string_view text, TextPart part, std::vector<std::int32_t>& tokens);
  void encode_words(std::string_view text, TextPart part, std::vector<std::int32_t>& tokens);
  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens);
  void find_or_merge(std::string_view word, std::vector<std::int32_t>& tokens);
  void merge_short(std::string_view word, std::vector<std::int32_t>& tokens);
  void merge_long(std::string_view word, std::vector<std::int32_t>& tokens);
  void add_candidate(std::int32_t place, std::vector<Candidate>& heap);
  std::int32_t byte_token(char byte) const;

  const TokenizerModel& model_;
  std::vector<Known> known_;
  std::vector<Symbol> symbols_;
  std::string prefixed_;
};

}  // namespace lockstep::data

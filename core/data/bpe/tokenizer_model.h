// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/data/bpe/merge_table.h"
#include "lockstep/tokens/byte_pairs.h"

namespace lockstep::data {

/// GPT-2's token between documents, which a tokenizer that is trained has, too; and Llama 3's.
inline constexpr const char* kEndOfText = "<|endoftext|>";
inline constexpr const char* kLlamaEndOfText = "<|end_of_text|>";

/// Where an added token lies in a text.
struct AddedPlace {
  std::size_t begin = std::string_view::npos, end = std::string_view::npos;
  std::int32_t token = -1;
};

/// Added tokens by their texts: of those that begin first in a text, the longest.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  std::size_t max_bytes() const { return max_bytes_; }
  /// The first in [from, text.size()).
  AddedPlace find(std::string_view text, std::size_t from) const;
  /// Whether one has its begin before `at` and its end after it.
  bool spans(std::string_view text, std::size_t at) const;

 private:
  std::vector<AddedToken> tokens_;  // by first byte, the longest first
  std::array<std::int32_t, 257> of_byte_{};
  std::size_t max_bytes_ = 0;
};

/// The tables of a tokenizer.
class TokenizerModel {
 public:
  explicit TokenizerModel(BytePairs pairs);
  TokenizerModel(const TokenizerModel&) = delete;  // numbers_ points into pairs_
  TokenizerModel& operator=(const TokenizerModel&) = delete;

  const BytePairs& pairs() const { return pairs_; }
  std::int64_t vocabulary() const { return std::int64_t(pairs_.tokens.size()); }
  const std::string& fingerprint() const { return fingerprint_; }
  const MergeTable& merges() const { return merges_; }
  /// The token of one byte; -1: there is none.
  std::int32_t byte_token(unsigned char byte) const { return byte_tokens_[byte]; }
  /// The bytes of a token below vocabulary(); empty: there is none of this number.
  std::string_view text(std::int32_t token) const { return texts_[std::size_t(token)]; }
  /// -1: there is none.
  std::int32_t find(std::string_view text) const;
  /// Those that are looked for in the whole text, and those that are looked for in what is left.
  const AddedTokens& first_added() const { return first_added_; }
  const AddedTokens& later_added() const { return later_added_; }
  /// Whether a text may be cut at `at` without cutting an added token.
  bool may_cut(std::string_view text, std::size_t at) const {
    return !first_added_.spans(text, at) && !later_added_.spans(text, at);
  }

 private:
  void add_tokens();
  void add_merges();

  BytePairs pairs_;
  std::unordered_map<std::string_view, std::int32_t> numbers_;
  std::vector<std::string_view> texts_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_tokens_{};
  AddedTokens first_added_, later_added_;
  std::string fingerprint_;
};

}  // namespace lockstep::data

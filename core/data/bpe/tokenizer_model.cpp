// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/tokenizer_model.h"

#include <algorithm>
#include <tuple>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/data/bpe/word_patterns.h"

namespace lockstep::data {
namespace {

std::size_t first_byte(const AddedToken& token) {
  return static_cast<unsigned char>(token.text[0]);
}

std::vector<AddedToken> added_where(const BytePairs& pairs, bool normalized) {
  std::vector<AddedToken> result;
  for (const AddedToken& token : pairs.added)
    if (token.normalized == normalized) result.push_back(token);
  return result;
}

void append(std::string& text, std::uint64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void append(std::string& text, std::string_view part) {
  append(text, part.size());
  text += part;
}

std::string fingerprint_of(const BytePairs& pairs) {
  std::string text = "byte pairs, GPT-2's pattern";
  // Of what other tokenizers have nothing is there for GPT-2's, whose token files are the older.
  if (pairs.pattern != WordPattern::gpt2 || pairs.ignore_merges)
    text = fmt::format("byte pairs, pattern {}, merges {}",
                       pattern_name(pairs.pattern),
                       pairs.ignore_merges ? "ignored for tokens" : "followed");
  append(text, pairs.add_prefix_space);
  append(text, pairs.tokens.size());
  for (const std::string& token : pairs.tokens) append(text, token);
  append(text, pairs.merges.size());
  for (const auto& [left, right] : pairs.merges)
    append(text, std::uint64_t(left) << 32 | std::uint64_t(right));
  std::vector<AddedToken> added = pairs.added;
  std::ranges::sort(added, {}, &AddedToken::id);
  for (const AddedToken& token : added) {
    append(text, std::uint64_t(token.id) << 1 | std::uint64_t(token.normalized));
    append(text, token.text);
  }
  return sha256_of(text);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return std::tuple(first_byte(a), b.text.size(), a.text) <
           std::tuple(first_byte(b), a.text.size(), b.text);
  });
  for (const AddedToken& token : tokens_) {
    ++of_byte_[first_byte(token) + 1];
    max_bytes_ = std::max(max_bytes_, token.text.size());
  }
  for (std::size_t byte = 1; byte < of_byte_.size(); ++byte) of_byte_[byte] += of_byte_[byte - 1];
}

AddedPlace AddedTokens::find(std::string_view text, std::size_t from) const {
  if (empty()) return {};
  for (std::size_t at = from; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    for (std::int32_t i = of_byte_[byte]; i < of_byte_[byte + 1u]; ++i) {
      const AddedToken& token = tokens_[std::size_t(i)];
      if (text.substr(at, token.text.size()) == token.text)
        return {at, at + token.text.size(), token.id};
    }
  }
  return {};
}

bool AddedTokens::spans(std::string_view text, std::size_t at) const {
  for (std::size_t begin = at - std::min(at, max_bytes_); begin < at; ++begin) {
    const auto byte = static_cast<unsigned char>(text[begin]);
    for (std::int32_t i = of_byte_[byte]; i < of_byte_[byte + 1u]; ++i) {
      const std::string& token = tokens_[std::size_t(i)].text;
      // One whose end the text does not have yet may be there once more is known of it.
      const std::string_view there = text.substr(begin, token.size());
      // Nor at its end, where the text after it would not begin anew.
      if (begin + token.size() >= at && token.starts_with(there)) return true;
    }
  }
  return false;
}

TokenizerModel::TokenizerModel(BytePairs pairs)
    : pairs_(std::move(pairs)),
      merges_(pairs_.merges.size()),
      first_added_(added_where(pairs_, false)),
      later_added_(added_where(pairs_, true)),
      fingerprint_(fingerprint_of(pairs_)) {
  add_tokens();
  add_merges();
}

void TokenizerModel::add_tokens() {
  std::ranges::fill(byte_tokens_, -1);
  const auto add = [&](std::string_view text, std::size_t number) {
    const auto [found, is_new] = numbers_.emplace(text, std::int32_t(number));
    LOCKSTEP_CHECK(is_new || found->second == std::int32_t(number),
                   DataError,
                   "tokenizer: '{}' is token {} and token {}",
                   as_written(std::string(text)),
                   found->second,
                   number);
    LOCKSTEP_CHECK(texts_[number].empty() || texts_[number] == text,
                   DataError,
                   "tokenizer: token {} is '{}' and '{}'",
                   number,
                   as_written(std::string(texts_[number])),
                   as_written(std::string(text)));
    texts_[number] = text;
  };
  texts_.resize(pairs_.tokens.size());
  for (std::size_t i = 0; i < pairs_.tokens.size(); ++i)
    if (!pairs_.tokens[i].empty()) add(pairs_.tokens[i], i);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = char(byte);
    byte_tokens_[std::size_t(byte)] = find({&text, 1});
  }
  // Each is looked for at each byte of a text.
  constexpr std::size_t kMaxAdded = 65536, kMaxAddedBytes = 1024;
  LOCKSTEP_CHECK(pairs_.added.size() <= kMaxAdded,
                 DataError,
                 "tokenizer: {} added tokens, expected at most {}",
                 pairs_.added.size(),
                 kMaxAdded);
  for (const AddedToken& token : pairs_.added) {
    LOCKSTEP_CHECK(!token.text.empty(), DataError, "tokenizer: an added token without text");
    LOCKSTEP_CHECK(token.text.size() <= kMaxAddedBytes,
                   DataError,
                   "tokenizer: an added token of {} bytes, expected at most {}",
                   token.text.size(),
                   kMaxAddedBytes);
    LOCKSTEP_CHECK(token.id >= 0 && std::size_t(token.id) < pairs_.tokens.size(),
                   DataError,
                   "tokenizer: the added token '{}' has the number {}, expected one below {}",
                   as_written(token.text),
                   token.id,
                   pairs_.tokens.size());
    const std::string& same = pairs_.tokens[std::size_t(token.id)];
    LOCKSTEP_CHECK(same.empty() || same == token.text,
                   DataError,
                   "tokenizer: token {} is '{}' and '{}'",
                   token.id,
                   as_written(same),
                   as_written(token.text));
    add(token.text, std::size_t(token.id));
  }
}

void TokenizerModel::add_merges() {
  std::string both;
  for (std::size_t rank = 0; rank < pairs_.merges.size(); ++rank) {
    const auto [left, right] = pairs_.merges[rank];
    const auto bytes = [&](std::int32_t token) -> const std::string& {
      LOCKSTEP_CHECK(token >= 0 && std::size_t(token) < pairs_.tokens.size() &&
                         !pairs_.tokens[std::size_t(token)].empty(),
                     DataError,
                     "tokenizer: merge {} is of token {}, which does not exist",
                     rank,
                     token);
      return pairs_.tokens[std::size_t(token)];
    };
    both.assign(bytes(left)).append(bytes(right));
    const std::int32_t token = find(both);
    LOCKSTEP_CHECK(token >= 0,
                   DataError,
                   "tokenizer: merge {} makes '{}', which is not a token",
                   rank,
                   as_written(both));
    merges_.set(left, right, {std::int32_t(rank), token});
  }
}

std::int32_t TokenizerModel::find(std::string_view text) const {
  const auto found = numbers_.find(text);
  return found == numbers_.end() ? -1 : found->second;
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/tokens/byte_pairs.h"

namespace lockstep::data {

class TokenizerModel;

/// Texts as tokens and back, by a byte-level byte-pair encoding: a text is cut into words by a
/// pattern (WordPattern), and of the bytes of a word the pair that comes first among the merges
/// becomes one token, again and again (Sennrich et al. 2016, "Neural Machine Translation of Rare
/// Words with Subword Units", algorithm 1). Tokens are those of Hugging Face's tokenizers. Copies
/// share their tables; used by any number of threads.
class Tokenizer {
 public:
  /// Throws DataError naming the token or the merge: a merge of tokens that do not exist, or whose
  /// bytes together are not a token; two tokens of one text or one number.
  explicit Tokenizer(BytePairs pairs);

  /// Of all tokens the largest number plus 1.
  std::int64_t vocabulary() const;
  /// `text` is UTF-8. Throws DataError naming the place: bytes that are not; a byte that is not a
  /// token, as of a vocabulary made without all bytes; a word of more than kMaxWordBytes.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of tokens, which need not be valid UTF-8: a character may be several tokens. Throws
  /// DataError: a number that is not a token's.
  std::string decode(std::span<const std::int32_t> tokens) const;
  /// The number of an added token, or of a token, with this text.
  std::optional<std::int32_t> find(std::string_view text) const;
  /// The number of "<|endoftext|>", or where there is none of Llama 3's "<|end_of_text|>".
  std::optional<std::int32_t> end_of_text() const;
  const BytePairs& pairs() const;
  /// SHA-256 of all that decides tokens, in hexadecimal digits.
  const std::string& fingerprint() const;

  /// Of Lockstep's own use.
  const TokenizerModel& model() const { return *model_; }

 private:
  std::shared_ptr<const TokenizerModel> model_;
};

}  // namespace lockstep::data

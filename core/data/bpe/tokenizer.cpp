// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokens/tokenizer.h"

#include "core/base/check.h"
#include "core/base/text/utf8.h"
#include "core/data/bpe/token_encoder.h"
#include "core/data/bpe/tokenizer_model.h"

namespace lockstep::data {

Tokenizer::Tokenizer(BytePairs pairs)
    : model_(std::make_shared<const TokenizerModel>(std::move(pairs))) {}

std::int64_t Tokenizer::vocabulary() const { return model_->vocabulary(); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  for (std::size_t at = 0; at < text.size();) {
    const int bytes = decode_utf8(text, at).bytes;
    LOCKSTEP_CHECK(bytes > 0,
                   DataError,
                   "invalid UTF-8 at byte {} (0x{:02x})",
                   at,
                   unsigned(static_cast<unsigned char>(text[at])));
    at += std::size_t(bytes);
  }
  std::vector<std::int32_t> tokens;
  TokenEncoder(*model_).encode(text, TextPart::first, tokens);
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    LOCKSTEP_CHECK(token >= 0 && token < vocabulary(),
                   DataError,
                   "{} is not a token of the tokenizer, which has {}",
                   token,
                   vocabulary());
    text += model_->text(token);
  }
  return text;
}

std::optional<std::int32_t> Tokenizer::find(std::string_view text) const {
  const std::int32_t token = model_->find(text);
  return token < 0 ? std::nullopt : std::optional(token);
}

std::optional<std::int32_t> Tokenizer::end_of_text() const {
  const auto end = find(kEndOfText);
  return end ? end : find(kLlamaEndOfText);
}

const BytePairs& Tokenizer::pairs() const { return model_->pairs(); }

const std::string& Tokenizer::fingerprint() const { return model_->fingerprint(); }

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/preprocessing.h"

namespace lockstep {

/// A text as a model's tokens.
struct EncodedText {
  std::vector<std::int32_t> tokens;
  std::string problem;  ///< not empty: what of the text is not a token, and where
};

/// `text` as tokens of a run whose record is `trained`: those of its tokenizer; its characters
/// where tokens have names; else whole numbers with spaces, line breaks or commas between them.
EncodedText encode_text(std::string_view text, const data::Preprocessing& trained);

/// The text of tokens that come one after the other. A character may be several tokens.
class TokenPrinter {
 public:
  explicit TokenPrinter(const data::Preprocessing& trained) : trained_(trained) {}

  /// What the token completes: whole characters, U+FFFD for bytes that are not part of one; the
  /// number and a space where tokens have no text.
  std::string add(std::int32_t token);
  /// What is left of a character that was not completed.
  std::string finish();

 private:
  const data::Preprocessing& trained_;
  std::string unfinished_;
};

}  // namespace lockstep

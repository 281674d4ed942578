// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/preprocessing.h"

namespace lockstep {

/// A text as a model's tokens.
struct EncodedText {
  std::vector<std::int32_t> tokens;
  std::string problem;  ///< not empty: what of the text is not a token, and where
};

/// `text` as tokens of a run whose record is `trained`: its characters where tokens have names,
/// else whole numbers with spaces, line breaks or commas between them.
EncodedText encode_text(std::string_view text, const data::Preprocessing& trained);

}  // namespace lockstep

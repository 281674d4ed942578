// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/tokens/byte_pairs.h"

namespace lockstep::data {

/// "gpt2", "digits", "llama3" or "qwen2".
std::string_view pattern_name(WordPattern pattern);

/// The regular expression as Hugging Face's files have it; of `digits` GPT-2's, which is applied
/// between the digits.
std::string_view pattern_text(WordPattern pattern);

/// The pattern with exactly this text. A regular expression that cuts alike, but is written in
/// another way, is not found.
std::optional<WordPattern> pattern_of_text(std::string_view text);

/// The models whose patterns are known, for messages.
inline constexpr const char* kKnownPatterns =
    "those of GPT-2, SmolLM, Llama 3 (cl100k_base) and Qwen 2";

}  // namespace lockstep::data

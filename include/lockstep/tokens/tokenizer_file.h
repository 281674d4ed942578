// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/tokens/tokenizer.h"

namespace lockstep::io {

/// The name of the file that holds a tokenizer, in Hugging Face's format.
inline constexpr const char* kTokenizerFile = "tokenizer.json";

/// A byte-level BPE tokenizer:
///
///   const auto tokenizer = lockstep::io::read_tokenizer("gpt2");
///   const std::vector<std::int32_t> tokens = tokenizer.encode("Hello, world");
///
/// `path`: tokenizer.json of Hugging Face's tokenizers, a folder with one, or a folder with GPT-2's
/// vocab.json and merges.txt, whose "<|endoftext|>" becomes an added token. Post-processors,
/// truncation and padding are ignored: tokens are those of encode(add_special_tokens=False).
/// Throws DataError naming file and key: not such a file; another model than BPE, a normalizer, a
/// pre-tokenizer other than ByteLevel with GPT-2's pattern, or an added token with conditions.
data::Tokenizer read_tokenizer(const std::string& path);

}  // namespace lockstep::io

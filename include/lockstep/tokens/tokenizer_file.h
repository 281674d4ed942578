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
/// vocab.json and merges.txt, whose "<|endoftext|>" becomes an added token. Pre-tokenizers are
/// those of GPT-2, SmolLM, Llama 3 and Qwen 2 (data::WordPattern). Post-processors, such as the
/// TemplateProcessing that puts Llama 3's "<|begin_of_text|>" before a text, truncation and padding
/// are ignored: tokens are those of encode(add_special_tokens=False). Throws DataError naming file
/// and key: not such a file; another model than BPE, a normalizer, another pre-tokenizer or
/// pattern, or an added token with conditions.
data::Tokenizer read_tokenizer(const std::string& path);

}  // namespace lockstep::io

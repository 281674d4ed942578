// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/io/tokenizer/text_blocks.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep::io {

struct TokenizeOptions {
  DocumentUnit unit = DocumentUnit::file;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::refused;
  /// Follows each document; empty: nothing does.
  std::optional<std::int32_t> end_of_text = {};
  int threads = 1;
  /// Bytes of text that are done, from time to time.
  std::function<void(std::uint64_t bytes)> progress = {};
};

/// What is trained on and what is kept for validation.
struct TextSplit {
  std::vector<TextRange> train, validation;
};

/// The last `fraction` of the bytes of `files` for validation: from the begin of a file on where
/// that is possible, else within the last file from the begin of a line on. 0: none. Throws
/// DataError: a file that is missing or not regular, or texts too short to be divided.
TextSplit split_texts(const std::vector<std::string>& files, double fraction);

/// Whole files. Throws DataError as split_texts().
std::vector<TextRange> whole_texts(const std::vector<std::string>& files);

/// How many bytes of text they are.
std::uint64_t bytes_of(const std::vector<TextRange>& ranges);

/// A byte-level BPE of `vocabulary` tokens, made of the words of the texts (train_byte_pairs() in
/// core/data/bpe), with the special token "<|endoftext|>", last. The words that are different are
/// kept in memory. Throws ConfigError: a vocabulary that is too small; DataError as TextBlocks.
data::Tokenizer train_tokenizer(const std::vector<TextRange>& texts,
                                std::int64_t vocabulary,
                                const TokenizeOptions& options);

/// Writes the tokens of `texts` as a token file (core/data/text/token_file.h): the same bytes for
/// any number of threads. Returns how many there are. Of the texts it holds some megabytes for
/// each thread. Throws DataError as TextBlocks and TokenEncoder; EnvironmentError: the file cannot
/// be written.
std::int64_t write_tokens(const std::vector<TextRange>& texts,
                          const data::Tokenizer& tokenizer,
                          const std::string& file,
                          const TokenizeOptions& options);

}  // namespace lockstep::io

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/data/text/token_sequence.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Tokens of a file, as sources.h says of tokens(), read as they are asked for. `vocabulary`: 0 for
/// the file's, `tokenizer`'s or GPT-2's, of these the first that is known. Throws DataError: an odd
/// number of bytes, a header that lies; ConfigError: tokens of another tokenizer, or of a larger
/// vocabulary.
TokenSequence read_token_file(const std::string& path,
                              std::int64_t vocabulary,
                              std::shared_ptr<const Tokenizer> tokenizer = nullptr);

struct OpenOptions;

/// The first part at random places for training, the last part in order for validation: the share
/// options.validation_fraction, a tenth where it is 0.
DataSplit split_tokens(const TokenSequence& sequence, const OpenOptions& options);

/// Windows of `context` tokens, the target of each token being the next one: i32 [context] -> i32
/// [context].
///   random: floor((S - 1) / context) windows an epoch of S tokens, the place of window i of epoch
///     e drawn from (seed, e, i), all places equally likely (as nanoGPT draws them);
///   in order: ceil((S - 1) / context) windows one after the other, so that every token but the
///     first is a target once; the targets that the last one lacks are kIgnoreIndex.
/// Targets equal to `ignored` become kIgnoreIndex.
/// Throws ConfigError: a context below 1, or fewer than context + 1 (in order: 2) tokens.
std::shared_ptr<const Dataset> random_windows(TokenSequence sequence,
                                              std::int64_t context,
                                              std::uint64_t seed,
                                              std::optional<std::int32_t> ignored);
std::shared_ptr<const Dataset> windows_in_order(TokenSequence sequence,
                                                std::int64_t context,
                                                std::optional<std::int32_t> ignored);

/// Windows that each lie in one document, for training and validation alike: of a document of the
/// tokens after one `end_of_text` up to the next, which its text is predicted from and which it
/// ends with, ceil(tokens / context) windows one after the other. Those that the last one lacks are
/// 0, their targets kIgnoreIndex. All tokens are read once to find the documents. Throws
/// ConfigError: no sequence.end_of_text, a context below 1, no document.
std::shared_ptr<const Dataset> document_windows(TokenSequence sequence,
                                                std::int64_t context,
                                                std::optional<std::int32_t> ignored);

}  // namespace lockstep::data

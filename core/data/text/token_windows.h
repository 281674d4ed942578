// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Where tokens lie. Read by several threads.
class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual std::int64_t size() const = 0;
  /// Copies the tokens from `first` on. Throws DataError naming a file that cannot be read, or has
  /// become shorter.
  virtual void read(std::int64_t first, std::span<std::uint16_t> to) const = 0;
};

std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::uint16_t> tokens);

/// A part of a store.
struct TokenSequence {
  std::shared_ptr<const TokenStore> store = {};
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::string description = {};               ///< "text:FILE"
  std::vector<std::string> token_names = {};  ///< empty, or the text of each token
  std::int64_t vocabulary = 0;
  std::uint64_t hash = 0;  ///< of the content, or of its begin
  std::string file = {};   ///< the one that it is of, where `hash` is not of all; else empty

  /// Its tokens [begin, begin + size).
  TokenSequence part(std::int64_t begin, std::int64_t size, const std::string& name) const;
};

/// All of a store, whose tokens are numbers below `vocabulary`.
TokenSequence whole_sequence(std::shared_ptr<const TokenStore> store,
                             std::string description,
                             std::int64_t vocabulary);

/// 16-bit tokens of a file, as sources.h says of tokens(), read as they are asked for.
/// `vocabulary`: 0 for GPT-2's. Throws DataError: an odd number of bytes, a header that lies.
TokenSequence read_token_file(const std::string& path, std::int64_t vocabulary);

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

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// Where tokens lie. Read by several threads.
class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual std::int64_t size() const = 0;
  /// Copies the tokens from `first` on. Throws DataError naming a file that cannot be read, or has
  /// become shorter.
  virtual void read(std::int64_t first, std::span<std::int32_t> to) const = 0;
};

std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::uint16_t> tokens);
std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::int32_t> tokens);

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
  std::optional<std::int32_t> end_of_text = {};     ///< the token that ends a document
  std::shared_ptr<const Tokenizer> tokenizer = {};  ///< that made the tokens; null: not known

  /// Its tokens [begin, begin + size).
  TokenSequence part(std::int64_t begin, std::int64_t size, const std::string& name) const;
};

/// All of a store, whose tokens are numbers below `vocabulary`.
TokenSequence whole_sequence(std::shared_ptr<const TokenStore> store,
                             std::string description,
                             std::int64_t vocabulary);

}  // namespace lockstep::data

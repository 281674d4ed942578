// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/file_reader.h"
#include "core/data/text/token_sequence.h"

namespace lockstep::data {

/// What stands before the tokens of a file: llm.c's 256 little-endian words of 32 bits (its
/// dev/data/data_common.py), of which llm.c uses the first three and leaves the others 0.
///   0: magic, 1: version, which say how wide a token is (16 bits: 20240520, 1; 32 bits: 20240801,
///      7); 2: tokens
///   Of Lockstep alone: 3: the upper half of the tokens' count; 4: tokens of the vocabulary; 5: the
///   token that ends a document, plus 1; 6 to 13: the tokenizer's fingerprint.
struct TokenFileHeader {
  static constexpr std::size_t kBytes = 1024;

  int token_bytes = 2;
  std::uint64_t tokens = 0;
  std::int64_t vocabulary = 0;                   ///< 0: not known
  std::optional<std::int32_t> end_of_text = {};  ///< empty: not known
  std::string tokenizer = {};                    ///< 64 hexadecimal digits; empty: not known

  std::array<std::uint32_t, kBytes / 4> to_words() const;
};

/// Tokens need 32 bits from this vocabulary on.
constexpr std::int64_t kMaxNarrowVocabulary = 65536;

/// A file of 16-bit tokens without a header (nanoGPT), with one, or an array of NumPy's. Throws
/// DataError: an odd number of bytes, a header that lies, an array that is not of uint16, uint32 or
/// int32 [N].
class TokenFile final : public TokenStore {
 public:
  explicit TokenFile(const std::string& path);

  std::int64_t size() const override { return std::int64_t(header_.tokens); }
  void read(std::int64_t first, std::span<std::int32_t> to) const override;
  const TokenFileHeader& header() const { return header_; }
  /// Of the begin, for the fingerprint.
  std::uint64_t hash() const;

 private:
  bool read_header();
  void read_npy_header();

  std::string path_;
  FileReader file_;
  TokenFileHeader header_;
  std::uint64_t begin_ = 0;  // of the tokens, in bytes
};

}  // namespace lockstep::data

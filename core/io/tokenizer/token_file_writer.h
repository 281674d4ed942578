// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/data/text/token_file.h"
#include "core/io/output_file.h"

namespace lockstep::io {

/// Writes a token file of unknown length, which disappears unless finish() succeeds. Tokens have 16
/// bits where the vocabulary has at most data::kMaxNarrowVocabulary, else 32. Failures throw
/// EnvironmentError naming the file.
class TokenFileWriter {
 public:
  /// `header`: token_bytes and tokens are not looked at.
  TokenFileWriter(const std::filesystem::path& path, data::TokenFileHeader header);

  void write(std::span<const std::int32_t> tokens);
  std::int64_t tokens() const { return std::int64_t(header_.tokens); }
  /// Completes the header, and flushes to the disk.
  void finish();

 private:
  OutputFile file_;
  data::TokenFileHeader header_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace lockstep::io

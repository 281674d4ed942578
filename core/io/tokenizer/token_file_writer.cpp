// SPDX-License-Identifier: Apache-2.0
#include "core/io/tokenizer/token_file_writer.h"

namespace lockstep::io {

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, data::TokenFileHeader header)
    : file_(path), header_(std::move(header)) {
  header_.token_bytes = header_.vocabulary <= data::kMaxNarrowVocabulary ? 2 : 4;
  header_.tokens = 0;
  const auto words = header_.to_words();
  file_.write(std::as_bytes(std::span(words)));
}

void TokenFileWriter::write(std::span<const std::int32_t> tokens) {
  header_.tokens += tokens.size();
  if (header_.token_bytes == 4) {
    file_.write(std::as_bytes(tokens));
    return;
  }
  narrow_.assign(tokens.begin(), tokens.end());
  file_.write(std::as_bytes(std::span(narrow_)));
}

void TokenFileWriter::finish() {
  const auto words = header_.to_words();
  file_.write_again(0, std::as_bytes(std::span(words)));
  file_.finish();
}

}  // namespace lockstep::io

// SPDX-License-Identifier: Apache-2.0
// Texts that become tokens, read some bytes at a time: tokens are those of the whole text, and
// become the text again. The first byte chooses how many, the pattern, and whether lines are
// documents.
#include <array>

#include "core/io/tokenizer/text_blocks.h"
#include "lockstep/error.h"
#include "lockstep/tokens/tokenizer.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

/// Bytes, a few merges, and added tokens with a space in them, one of which begins another.
data::Tokenizer small_tokenizer(data::WordPattern pattern) {
  data::BytePairs pairs;
  for (int byte = 0; byte < 256; ++byte) pairs.tokens.emplace_back(1, char(byte));
  for (const auto& [left, right] :
       {std::pair{int(' '), int('a')}, {'a', 'a'}, {'a', 'b'}, {257, 'b'}, {'\n', '\n'}}) {
    pairs.merges.emplace_back(left, right);
    pairs.tokens.push_back(pairs.tokens[std::size_t(left)] + pairs.tokens[std::size_t(right)]);
  }
  for (const char* text : {"<|e|>", "<|e f|>", "a b"})
    pairs.added.push_back({.text = text, .id = std::int32_t(pairs.tokens.size())}),
        pairs.tokens.emplace_back();
  pairs.pattern = pattern;
  pairs.ignore_merges = pattern == data::WordPattern::llama3;
  return data::Tokenizer(std::move(pairs));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  static const fuzz::InputFile file;
  using data::WordPattern;
  static const std::array<data::Tokenizer, 4> tokenizers{small_tokenizer(WordPattern::gpt2),
                                                         small_tokenizer(WordPattern::digits),
                                                         small_tokenizer(WordPattern::llama3),
                                                         small_tokenizer(WordPattern::qwen2)};
  const data::Tokenizer& tokenizer = tokenizers[data[0] >> 2 & 3];
  file.write(data + 1, bytes - 1);
  const auto unit = data[0] & 1 ? io::DocumentUnit::line : io::DocumentUnit::file;
  fuzz::run_parser(bytes, [&] {
    const auto read = [&](std::size_t read_bytes) {
      io::TextBlocks blocks(
          {.file = file.path(), .end = bytes - 1},
          unit,
          data[0] & 2 ? io::InvalidUtf8::replaced : io::InvalidUtf8::refused,
          tokenizer.pairs().pattern,
          [&](std::string_view text, std::size_t at) {
            return tokenizer.model().may_cut(text, at);
          },
          read_bytes);
      std::vector<std::int32_t> tokens;
      data::TokenEncoder encoder(tokenizer.model());
      for (io::TextBlock block; blocks.next(block);)
        for (const auto& span : block.spans) {
          encoder.encode(std::string_view(block.text).substr(span.begin, span.end - span.begin),
                         span.part,
                         tokens);
          if (span.ends_document) tokens.push_back(-1);
        }
      return tokens;
    };
    std::vector<std::int32_t> tokens = read(bytes);
    fuzz::require(tokens == read(1 + std::size_t(data[0] >> 4)), "other tokens");
    if ((data[0] & 3) != 0) return;
    std::erase(tokens, -1);
    fuzz::require(tokenizer.decode(tokens) == fuzz::as_text(data + 1, bytes - 1), "another text");
  });
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/data/input_file.h"
#include "core/data/sources.h"
#include "core/data/token_windows.h"
#include "core/data/utf8.h"

namespace lockstep::data {
namespace {

/// Characters of a vocabulary are numbered in 16 bits.
constexpr std::size_t kMostCharacters = 65536;

std::vector<std::uint32_t> read_characters(const std::string& file) {
  const std::string text = read_text_file(file, "expected a text file in UTF-8");
  LOCKSTEP_CHECK(!text.empty(), DataError, "{}: the file is empty", file);
  std::vector<std::uint32_t> characters;
  characters.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character next = decode_utf8(text, offset);
    LOCKSTEP_CHECK(next.bytes > 0,
                   DataError,
                   "{}: invalid UTF-8 at byte {} (0x{:02x}); convert the file, for example with "
                   "iconv -t UTF-8",
                   file,
                   offset,
                   unsigned(static_cast<unsigned char>(text[offset])));
    LOCKSTEP_CHECK(next.code != 0,
                   DataError,
                   "{}: a NUL at byte {}; is this a text file? tokens:FILE reads binary tokens",
                   file,
                   offset);
    characters.push_back(next.code);
    offset += std::size_t(next.bytes);
  }
  return characters;
}

}  // namespace

DataSplit text(const std::string& file, const OpenOptions& options) {
  const std::vector<std::uint32_t> characters = read_characters(file);
  std::map<std::uint32_t, std::uint16_t> numbers;
  for (const std::uint32_t c : characters) numbers.emplace(c, std::uint16_t{0});
  LOCKSTEP_CHECK(numbers.size() <= kMostCharacters,
                 DataError,
                 "{}: {} different characters, at most {} are supported",
                 file,
                 numbers.size(),
                 kMostCharacters);
  TokenSequence sequence;
  for (auto& [character, number] : numbers) {
    number = std::uint16_t(sequence.token_names.size());
    sequence.token_names.push_back(encode_utf8(character));
  }
  auto tokens = std::make_shared<std::vector<std::uint16_t>>();
  tokens->reserve(characters.size());
  for (const std::uint32_t c : characters) tokens->push_back(numbers.at(c));
  sequence.tokens = *tokens;
  sequence.hash = content_hash(tokens->data(), tokens->size() * sizeof(std::uint16_t));
  sequence.owner = std::move(tokens);
  sequence.description = "text:" + file;
  sequence.vocabulary = std::int64_t(sequence.token_names.size());
  return split_tokens(sequence, options);
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/base/text/utf8.h"
#include "core/data/input_file.h"
#include "core/data/text/token_windows.h"
#include "lockstep/data/sources.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep::data {
namespace {

/// Characters of a vocabulary are numbered in 16 bits.
constexpr std::size_t kMaxCharacters = 65536;

constexpr const char* kTextHint = "expected a text file in UTF-8";

/// A number for each character that occurs. Memory in pages, since few of a million codes do.
class CharacterNumbers {
 public:
  static constexpr std::int32_t kAbsent = -1;

  void add(std::uint32_t code) {
    std::unique_ptr<Page>& page = pages_[code / kPageCodes];
    if (page == nullptr) {
      page = std::make_unique<Page>();
      page->fill(kAbsent);
    }
    std::int32_t& number = (*page)[code % kPageCodes];
    different_ += number == kAbsent;
    number = 0;
  }
  std::size_t different() const { return different_; }
  /// Numbers the characters `names` in their order, instead of those that occur.
  void take(const std::vector<std::string>& names) {
    for (auto& page : pages_)
      if (page) page->fill(kAbsent);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Utf8Character character = names[i].empty() ? Utf8Character{} : decode_utf8(names[i], 0);
      if (character.bytes == 0) continue;  // nothing in a text is this token
      const std::uint32_t code = character.code;
      add(code);
      (*pages_[code / kPageCodes])[code % kPageCodes] = std::int32_t(i);
    }
  }
  std::int32_t number(std::uint32_t code) const {
    const std::unique_ptr<Page>& page = pages_[code / kPageCodes];
    return page == nullptr ? kAbsent : (*page)[code % kPageCodes];
  }
  /// Numbers them in ascending order of their codes; the characters in that order.
  std::vector<std::string> assign() {
    std::vector<std::string> names;
    for (std::uint32_t first = 0; first < kCodes; first += kPageCodes) {
      Page* page = pages_[first / kPageCodes].get();
      for (std::uint32_t i = 0; page != nullptr && i < kPageCodes; ++i) {
        if ((*page)[i] == kAbsent) continue;
        (*page)[i] = std::int32_t(names.size());
        names.push_back(encode_utf8(first + i));
      }
    }
    return names;
  }

 private:
  static constexpr std::uint32_t kCodes = 0x110000, kPageCodes = 256;
  using Page = std::array<std::int32_t, kPageCodes>;
  std::array<std::unique_ptr<Page>, kCodes / kPageCodes> pages_;
  std::size_t different_ = 0;
};

/// Calls `use(code)` for every character of `file`, of which it holds a piece at a time.
template <typename Use>
void for_each_character(const std::string& file, const Use& use) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::ifstream stream(file, std::ios::binary);
  std::string piece;         // begins with the bytes that were left over
  std::uint64_t before = 0;  // bytes of the file in front of it
  for (bool more = true; more;) {
    const std::size_t kept = piece.size();
    piece.resize(kept + kPiece);
    stream.read(piece.data() + kept, std::streamsize(kPiece));
    piece.resize(kept + std::size_t(stream.gcount()));
    more = bool(stream);
    if (stream.bad())
      throw DataError(fmt::format("{}: cannot be read", as_written(file)), read_hint(EIO));
    std::size_t at = 0;
    // A character at the end of a piece may continue in the next.
    while (at < piece.size() && (!more || at + 4 <= piece.size())) {
      const Utf8Character next = decode_utf8(piece, at);
      LOCKSTEP_CHECK(next.bytes > 0,
                     DataError,
                     "{}: invalid UTF-8 at byte {} (0x{:02x}); convert the file, for example with "
                     "iconv -t UTF-8",
                     as_written(file),
                     before + at,
                     unsigned(static_cast<unsigned char>(piece[at])));
      LOCKSTEP_CHECK(next.code != 0,
                     DataError,
                     "{}: a NUL at byte {}; is this a text file? tokens:FILE reads binary tokens",
                     as_written(file),
                     before + at);
      use(next.code);
      at += std::size_t(next.bytes);
    }
    piece.erase(0, at);
    before += at;
  }
}

void check_size(const std::string& file) {
  const std::uint64_t bytes = input_file_size(file, kTextHint);
  LOCKSTEP_CHECK(bytes > 0, DataError, "{}: the file is empty", as_written(file));
  LOCKSTEP_CHECK(bytes <= kMaxFileBytes,
                 DataError,
                 "{}: expected at most {} bytes, got {}",
                 as_written(file),
                 kMaxFileBytes,
                 bytes);
}

/// As tokens of the run's tokenizer.
DataSplit encoded_text(const std::string& file, const OpenOptions& options) {
  std::vector<std::int32_t> tokens;
  try {
    tokens = options.trained->tokenizer->encode(read_text_file(file, kTextHint));
  } catch (const DataError& wrong) {
    throw DataError(fmt::format("{}: {}", as_written(file), as_written(wrong.what())));
  }
  const std::uint64_t hash = content_hash(tokens.data(), tokens.size() * sizeof(std::int32_t));
  TokenSequence sequence = whole_sequence(
      tokens_in_memory(std::move(tokens)), "text:" + file, options.trained->samples.classes);
  sequence.tokenizer = options.trained->tokenizer;
  sequence.hash = hash;
  return split_tokens(sequence, options);
}

}  // namespace

DataSplit text(const std::string& file, const OpenOptions& options) {
  // Read twice, so that in addition to the tokens no character is held.
  check_size(file);
  if (options.trained && options.trained->tokenizer) return encoded_text(file, options);
  CharacterNumbers numbers;
  std::size_t count = 0;
  for_each_character(file, [&](std::uint32_t code) {
    ++count;
    numbers.add(code);
  });
  LOCKSTEP_CHECK(numbers.different() <= kMaxCharacters,
                 DataError,
                 "{}: {} different characters, at most {} are supported",
                 as_written(file),
                 numbers.different(),
                 kMaxCharacters);
  std::vector<std::string> names;
  if (options.trained) {
    names = options.trained->class_names;
    LOCKSTEP_CHECK(!names.empty(),
                   ConfigError,
                   "text:{}: the run was trained on token indices, which have no characters",
                   as_written(file));
    numbers.take(names);
  } else {
    names = numbers.assign();
  }
  std::vector<std::uint16_t> tokens;
  tokens.reserve(count);
  for_each_character(file, [&](std::uint32_t code) {
    const std::int32_t number = numbers.number(code);
    LOCKSTEP_CHECK(
        number != CharacterNumbers::kAbsent || !options.trained,
        DataError,
        "{}: the character '{}' (index {} in the file, from 1) is not in the text that the run "
        "was trained on",
        as_written(file),
        encode_utf8(code),
        tokens.size() + 1);
    LOCKSTEP_CHECK(number != CharacterNumbers::kAbsent && tokens.size() < count,
                   DataError,
                   "{}: the file changed while it was read",
                   as_written(file));
    tokens.push_back(std::uint16_t(number));
  });
  const std::uint64_t hash = content_hash(tokens.data(), tokens.size() * sizeof(std::uint16_t));
  TokenSequence sequence = whole_sequence(
      tokens_in_memory(std::move(tokens)), "text:" + file, std::int64_t(names.size()));
  sequence.token_names = std::move(names);
  sequence.hash = hash;
  return split_tokens(sequence, options);
}

}  // namespace lockstep::data

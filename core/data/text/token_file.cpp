// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/token_file.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/arrays/npy_array.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

struct Kind {
  std::uint32_t magic, version;
  int token_bytes;
};
constexpr Kind kKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

constexpr std::size_t kFirstDigestWord = 6, kDigestWords = 8;

const Kind* kind_of(std::uint32_t magic) {
  const Kind* found = std::ranges::find(kKinds, magic, &Kind::magic);
  return found == std::end(kKinds) ? nullptr : found;
}

}  // namespace

std::array<std::uint32_t, TokenFileHeader::kBytes / 4> TokenFileHeader::to_words() const {
  const Kind& kind = *std::ranges::find(kKinds, token_bytes, &Kind::token_bytes);
  std::array<std::uint32_t, kBytes / 4> words{kind.magic,
                                              kind.version,
                                              std::uint32_t(tokens),
                                              std::uint32_t(tokens >> 32),
                                              std::uint32_t(vocabulary)};
  if (end_of_text) words[5] = std::uint32_t(*end_of_text) + 1;
  for (std::size_t i = 0; i < kDigestWords && tokenizer.size() == 8 * kDigestWords; ++i) {
    const char* digits = tokenizer.data() + 8 * i;
    std::from_chars(digits, digits + 8, words[kFirstDigestWord + i], 16);
  }
  return words;
}

TokenFile::TokenFile(const std::string& path) : path_(path), file_(path) {
  LOCKSTEP_CHECK(file_.bytes() > 0,
                 DataError,
                 "{}: expected a regular file that is not empty",
                 as_written(path));
  if (is_npy_file(file_)) {
    read_npy_header();
    return;
  }
  if (read_header()) return;
  LOCKSTEP_CHECK(file_.bytes() % 2 == 0,
                 DataError,
                 "{}: {} bytes, an odd number; expected 16-bit tokens as nanoGPT and llm.c write "
                 "them",
                 as_written(path),
                 file_.bytes());
  header_.tokens = file_.bytes() / 2;
}

void TokenFile::read_npy_header() {
  std::vector<std::byte> bytes(kNpyPrefixBytes);
  file_.read(path_, 0, bytes);
  bytes.resize(std::size_t(npy_header_bytes(path_, bytes)));
  file_.read(path_, 0, bytes);
  const NpyHeader array = parse_npy_header(path_, bytes);
  const bool fits = array.type.is_whole() && (array.type.bytes == 2 || array.type.bytes == 4) &&
                    array.type != NpyType{NpyType::Kind::whole, 2} && array.shape.size() == 1;
  if (!fits)
    throw DataError(fmt::format("{}: expected tokens, uint16[N] or uint32[N], got {}",
                                as_written(path_),
                                array.to_string()),
                    "convert them: x.ravel().astype('uint16'), or 'uint32' for a vocabulary above "
                    "65,536");
  LOCKSTEP_CHECK(array.data_bytes() == file_.bytes() - array.bytes,
                 DataError,
                 "{}: the header says {}, {} bytes, but {} follow it",
                 as_written(path_),
                 array.to_string(),
                 array.data_bytes(),
                 file_.bytes() - array.bytes);
  header_.token_bytes = array.type.bytes;
  header_.tokens = std::uint64_t(array.shape[0]);
  begin_ = array.bytes;
}

bool TokenFile::read_header() {
  std::array<std::uint32_t, TokenFileHeader::kBytes / 4> words{};
  if (file_.bytes() < TokenFileHeader::kBytes) return false;
  file_.read(path_, 0, std::as_writable_bytes(std::span(words)));
  const Kind* kind = kind_of(words[0]);
  if (kind == nullptr) return false;
  LOCKSTEP_CHECK(words[1] == kind->version,
                 DataError,
                 "{}: an llm.c token file of version {} at byte 4, expected {} ({}-bit tokens)",
                 as_written(path_),
                 words[1],
                 kind->version,
                 8 * kind->token_bytes);
  header_.token_bytes = kind->token_bytes;
  header_.tokens = std::uint64_t{words[3]} << 32 | words[2];
  // Compared as a count of tokens: of bytes it might not fit 64 bits.
  const std::uint64_t bytes = file_.bytes() - TokenFileHeader::kBytes;
  const auto width = std::uint64_t(kind->token_bytes);
  LOCKSTEP_CHECK(bytes % width == 0 && header_.tokens == bytes / width,
                 DataError,
                 "{}: the header at byte 8 promises {} tokens of {} bytes after {} bytes; the file "
                 "has {} bytes",
                 as_written(path_),
                 header_.tokens,
                 width,
                 TokenFileHeader::kBytes,
                 file_.bytes());
  LOCKSTEP_CHECK(words[4] <= std::uint32_t(INT32_MAX) && (words[4] == 0 || words[5] <= words[4]),
                 DataError,
                 "{}: the header at byte 16 says a vocabulary of {} tokens, and that token {} ends "
                 "a document",
                 as_written(path_),
                 words[4],
                 std::int64_t(words[5]) - 1);
  header_.vocabulary = words[4];
  if (words[4] > 0 && words[5] > 0) header_.end_of_text = std::int32_t(words[5] - 1);
  const auto digest = std::span(words).subspan(kFirstDigestWord, kDigestWords);
  if (std::ranges::any_of(digest, [](std::uint32_t word) { return word != 0; }))
    for (const std::uint32_t word : digest) header_.tokenizer += fmt::format("{:08x}", word);
  begin_ = TokenFileHeader::kBytes;
  return true;
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> to) const {
  const std::uint64_t at = begin_ + std::uint64_t(first) * std::uint64_t(header_.token_bytes);
  const std::string place = fmt::format("{}: byte {}", path_, at);
  if (header_.token_bytes == 4) {
    file_.read(place, at, std::as_writable_bytes(to));
    return;
  }
  static thread_local std::vector<std::uint16_t> narrow;
  narrow.resize(to.size());
  file_.read(place, at, std::as_writable_bytes(std::span(narrow)));
  std::ranges::copy(narrow, to.begin());
}

std::uint64_t TokenFile::hash() const {
  std::vector<std::byte> begin(std::min<std::uint64_t>(file_.bytes(), 1 << 20));
  file_.read(path_, 0, begin);
  return content_hash(begin.data(), begin.size(), file_.bytes());
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"
#include "core/data/text/token_windows.h"
#include "lockstep/sources.h"

namespace lockstep::data {
namespace {

// llm.c's header: 256 32-bit words, of which the first three are these.
constexpr std::uint32_t kLlmcMagic = 20240520, kLlmcVersion = 1;
constexpr std::uint64_t kLlmcHeaderBytes = 1024;

constexpr std::int64_t kGpt2Vocabulary = 50257;
constexpr double kDefaultValidationFraction = 0.1;

/// What nanoGPT and llm.c write: 16-bit numbers, of llm.c after a header.
class TokenFile final : public TokenStore {
 public:
  explicit TokenFile(const std::string& path) : path_(path), file_(path) {
    LOCKSTEP_CHECK(file_.bytes() > 0,
                   DataError,
                   "{}: expected a regular file that is not empty",
                   as_written(path));
    header_bytes_ = checked_header_bytes();
    LOCKSTEP_CHECK(
        (file_.bytes() - header_bytes_) % 2 == 0,
        DataError,
        "{}: {} bytes, an odd number; expected 16-bit tokens as nanoGPT and llm.c write them",
        as_written(path),
        file_.bytes());
  }

  std::int64_t size() const override {
    return std::int64_t((file_.bytes() - header_bytes_) / sizeof(std::uint16_t));
  }
  void read(std::int64_t first, std::span<std::uint16_t> to) const override {
    const std::uint64_t at = header_bytes_ + std::uint64_t(first) * sizeof(std::uint16_t);
    file_.read(fmt::format("{}: byte {}", path_, at), at, std::as_writable_bytes(to));
  }
  /// Of the begin, for the fingerprint.
  std::uint64_t hash() const {
    std::vector<std::byte> begin(std::min<std::uint64_t>(file_.bytes(), 1 << 20));
    file_.read(path_, 0, begin);
    return content_hash(begin.data(), begin.size(), file_.bytes());
  }

 private:
  /// Bytes before the first token; checks what a header says.
  std::uint64_t checked_header_bytes() const {
    std::uint32_t words[3] = {};
    if (file_.bytes() < kLlmcHeaderBytes) return 0;
    file_.read(path_, 0, std::as_writable_bytes(std::span(words)));
    if (words[0] != kLlmcMagic) return 0;
    LOCKSTEP_CHECK(words[1] == kLlmcVersion,
                   DataError,
                   "{}: an llm.c token file of version {} at byte 4, expected {} (16-bit tokens)",
                   as_written(path_),
                   words[1],
                   kLlmcVersion);
    const std::uint64_t promised = kLlmcHeaderBytes + std::uint64_t{words[2]} * 2;
    LOCKSTEP_CHECK(promised == file_.bytes(),
                   DataError,
                   "{}: the header at byte 8 promises {} tokens, {} bytes in all; the file has {}",
                   as_written(path_),
                   words[2],
                   promised,
                   file_.bytes());
    return kLlmcHeaderBytes;
  }

  std::string path_;
  FileReader file_;
  std::uint64_t header_bytes_ = 0;
};

}  // namespace

TokenSequence read_token_file(const std::string& path, std::int64_t vocabulary) {
  auto file = std::make_shared<TokenFile>(path);
  const std::uint64_t hash = file->hash();
  TokenSequence sequence = whole_sequence(
      std::move(file), "tokens:" + path, vocabulary > 0 ? vocabulary : kGpt2Vocabulary);
  sequence.hash = hash;
  sequence.file = path;
  return sequence;
}

DataSplit split_tokens(const TokenSequence& sequence, const OpenOptions& options) {
  if (options.trained && options.validation_fraction == 1)
    return {nullptr, windows_in_order(sequence, options.context, options.ignore_index)};
  const double share =
      options.validation_fraction > 0 ? options.validation_fraction : kDefaultValidationFraction;
  const std::int64_t all = sequence.count;
  const auto train = std::int64_t(double(all) * (1 - share));
  return {
      random_windows(
          sequence.part(0, train, "training"), options.context, options.seed, options.ignore_index),
      windows_in_order(
          sequence.part(train, all - train, "validation"), options.context, options.ignore_index)};
}

DataSplit tokens(const std::string& path, const OpenOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error))
    return split_tokens(read_token_file(path, options.vocabulary), options);
  LOCKSTEP_CHECK(options.validation_fraction == 0 || options.trained,
                 ConfigError,
                 "data: tokens:{} is a folder with train.bin and val.bin, so a validation fraction "
                 "({}) cannot be chosen",
                 as_written(path),
                 options.validation_fraction);
  return {random_windows(read_token_file(path + "/train.bin", options.vocabulary),
                         options.context,
                         options.seed,
                         options.ignore_index),
          windows_in_order(read_token_file(path + "/val.bin", options.vocabulary),
                           options.context,
                           options.ignore_index)};
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/data/input_file.h"
#include "core/data/mapped_file.h"
#include "core/data/sources.h"
#include "core/data/token_windows.h"

namespace lockstep::data {
namespace {

// llm.c's header: 256 32-bit words, of which the first three are these.
constexpr std::uint32_t kLlmcMagic = 20240520, kLlmcVersion = 1;
constexpr std::size_t kLlmcHeaderBytes = 1024;

constexpr std::int64_t kGpt2Vocabulary = 50257;
constexpr double kDefaultValidationFraction = 0.1;

/// Bytes before the first token; checks what a header says.
std::size_t header_bytes(const MappedFile& file) {
  std::uint32_t words[3] = {};
  if (file.bytes().size() < kLlmcHeaderBytes) return 0;
  std::memcpy(words, file.bytes().data(), sizeof words);
  if (words[0] != kLlmcMagic) return 0;
  LOCKSTEP_CHECK(words[1] == kLlmcVersion,
                 DataError,
                 "{}: an llm.c token file of version {} at byte 4, expected {} (16-bit tokens)",
                 file.path(),
                 words[1],
                 kLlmcVersion);
  const std::uint64_t promised = kLlmcHeaderBytes + std::uint64_t{words[2]} * 2;
  LOCKSTEP_CHECK(promised == file.bytes().size(),
                 DataError,
                 "{}: the header at byte 8 promises {} tokens, {} bytes in all; the file has {}",
                 file.path(),
                 words[2],
                 promised,
                 file.bytes().size());
  return kLlmcHeaderBytes;
}

}  // namespace

TokenSequence read_token_file(const std::string& path, std::int64_t vocabulary) {
  auto file = std::make_shared<MappedFile>(path);
  const std::size_t header = header_bytes(*file), bytes = file->bytes().size();
  LOCKSTEP_CHECK(
      (bytes - header) % 2 == 0,
      DataError,
      "{}: {} bytes, an odd number; expected 16-bit tokens as nanoGPT and llm.c write them",
      path,
      bytes);
  TokenSequence sequence;
  sequence.tokens = {reinterpret_cast<const std::uint16_t*>(file->bytes().data() + header),
                     (bytes - header) / 2};
  sequence.hash = content_hash(file->bytes().data(), std::min<std::size_t>(bytes, 1 << 20), bytes);
  sequence.file = path;
  sequence.owner = std::move(file);
  sequence.description = "tokens:" + path;
  sequence.vocabulary = vocabulary > 0 ? vocabulary : kGpt2Vocabulary;
  return sequence;
}

DataSplit split_tokens(const TokenSequence& sequence, const OpenOptions& options) {
  if (options.trained && options.validation_fraction == 1)
    return {nullptr, windows_in_order(sequence, options.context, options.ignore_index)};
  const double share =
      options.validation_fraction > 0 ? options.validation_fraction : kDefaultValidationFraction;
  const auto all = std::int64_t(sequence.tokens.size());
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
                 path,
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

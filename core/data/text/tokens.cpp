// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/text/token_file.h"
#include "core/data/text/token_windows.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;
constexpr std::int32_t kGpt2EndOfText = 50256;
constexpr double kDefaultValidationFraction = 0.1;

/// The tokenizer of a file, and `tokenizer`, which came with it, against each other and against the
/// `vocabulary` that was asked for.
void check_tokenizer(const std::string& path,
                     const TokenFileHeader& header,
                     std::int64_t vocabulary,
                     const Tokenizer* tokenizer) {
  if (tokenizer != nullptr && !header.tokenizer.empty() &&
      header.tokenizer != tokenizer->fingerprint())
    throw ConfigError(fmt::format("{}: its tokens were made by another tokenizer ({:.12}) than "
                                  "the one that is given or lies next to it ({:.12})",
                                  as_written(path),
                                  header.tokenizer,
                                  tokenizer->fingerprint()),
                      "name the one that made them with `tokenizer`");
  const std::int64_t known = header.vocabulary > 0  ? header.vocabulary
                             : tokenizer != nullptr ? tokenizer->vocabulary()
                                                    : 0;
  if (known > vocabulary)
    throw ConfigError(fmt::format("{}: its tokens are of a vocabulary of {}, the model's is {}",
                                  as_written(path),
                                  known,
                                  vocabulary),
                      fmt::format("use `vocabulary` {} or more, or omit it", known));
}

std::optional<std::int32_t> end_of_text(const TokenFileHeader& header,
                                        std::int64_t vocabulary,
                                        const Tokenizer* tokenizer) {
  if (header.end_of_text) return header.end_of_text;
  if (tokenizer != nullptr) return tokenizer->end_of_text();
  const bool may_be_gpt2 = header.tokenizer.empty() && vocabulary == kGpt2Vocabulary;
  return may_be_gpt2 ? std::optional(kGpt2EndOfText) : std::nullopt;
}

std::shared_ptr<const Dataset> training_windows(TokenSequence sequence,
                                                const OpenOptions& options) {
  if (options.documents == Documents::separate)
    return document_windows(std::move(sequence), options.context, options.ignore_index);
  return random_windows(std::move(sequence), options.context, options.seed, options.ignore_index);
}

std::shared_ptr<const Dataset> validation_windows(TokenSequence sequence,
                                                  const OpenOptions& options) {
  if (options.documents == Documents::separate)
    return document_windows(std::move(sequence), options.context, options.ignore_index);
  return windows_in_order(std::move(sequence), options.context, options.ignore_index);
}

TokenSequence read_file(const std::string& path, const OpenOptions& options) {
  const bool of_run = options.trained != nullptr;
  return read_token_file(
      path,
      options.vocabulary > 0 || !of_run ? options.vocabulary : options.trained->samples.classes,
      of_run ? options.trained->tokenizer : options.tokenizer);
}

}  // namespace

TokenSequence read_token_file(const std::string& path,
                              std::int64_t vocabulary,
                              std::shared_ptr<const Tokenizer> tokenizer) {
  auto file = std::make_shared<TokenFile>(path);
  const TokenFileHeader& header = file->header();
  if (vocabulary == 0) vocabulary = header.vocabulary;
  if (vocabulary == 0 && tokenizer) vocabulary = tokenizer->vocabulary();
  if (vocabulary == 0) vocabulary = kGpt2Vocabulary;
  check_tokenizer(path, header, vocabulary, tokenizer.get());
  TokenSequence sequence = whole_sequence(file, "tokens:" + path, vocabulary);
  sequence.hash = file->hash();
  sequence.file = path;
  sequence.end_of_text = end_of_text(header, vocabulary, tokenizer.get());
  sequence.tokenizer = std::move(tokenizer);
  return sequence;
}

DataSplit split_tokens(const TokenSequence& sequence, const OpenOptions& options) {
  if (options.trained && options.validation_fraction == 1)
    return {nullptr, validation_windows(sequence, options)};
  const double share =
      options.validation_fraction > 0 ? options.validation_fraction : kDefaultValidationFraction;
  const std::int64_t all = sequence.count;
  const auto train = std::int64_t(double(all) * (1 - share));
  return {training_windows(sequence.part(0, train, "training"), options),
          validation_windows(sequence.part(train, all - train, "validation"), options)};
}

DataSplit tokens(const std::string& path, const OpenOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return split_tokens(read_file(path, options), options);
  const bool arrays =
      !fs::exists(path + "/train.bin", error) && fs::exists(path + "/train.npy", error);
  const char* const ending = arrays ? ".npy" : ".bin";
  LOCKSTEP_CHECK(options.validation_fraction == 0 || options.trained,
                 ConfigError,
                 "data: tokens:{} is a folder with train{} and val{}, so a validation fraction "
                 "({}) cannot be chosen",
                 as_written(path),
                 ending,
                 ending,
                 options.validation_fraction);
  return {training_windows(read_file(fmt::format("{}/train{}", path, ending), options), options),
          validation_windows(read_file(fmt::format("{}/val{}", path, ending), options), options)};
}

}  // namespace lockstep::data

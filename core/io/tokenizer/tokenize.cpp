// SPDX-License-Identifier: Apache-2.0
#include "core/io/tokenizer/tokenize.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/data/bpe/bpe_trainer.h"
#include "core/data/bpe/token_encoder.h"
#include "core/data/bpe/tokenizer_model.h"
#include "core/io/tokenizer/ordered_pool.h"
#include "core/io/tokenizer/token_file_writer.h"
#include "core/io/tokenizer/tokenizer_file.h"

namespace lockstep::io {
namespace {

/// Where the first line begins at or after `offset`, or the first character where none does within
/// a megabyte.
std::uint64_t line_after(const FileReader& file, std::uint64_t offset) {
  constexpr std::uint64_t kLongLine = std::uint64_t{1} << 20;
  std::string text(std::size_t(std::min(kLongLine, file.bytes() - offset)), '\0');
  file.read(file.path().string(), offset, std::as_writable_bytes(std::span(text)));
  if (const std::size_t line = text.find('\n'); line != text.npos) return offset + line + 1;
  std::size_t at = 0;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return offset + at;
}

/// Calls `use(block)` for all blocks of the texts, and tells options.progress.
template <typename Use>
void for_each_block(const std::vector<TextRange>& texts,
                    const TokenizeOptions& options,
                    data::WordPattern pattern,
                    const TextBlocks::MayCut& may_cut,
                    const Use& use) {
  std::uint64_t done = 0;
  for (const TextRange& range : texts) {
    TextBlocks blocks(range, options.unit, options.invalid_utf8, pattern, may_cut);
    for (TextBlock block; blocks.next(block);) {
      done += block.bytes;
      use(std::move(block), range);
      if (options.progress) options.progress(done);
    }
  }
}

struct EncodingJob {
  TextBlock block;
  std::string file;  ///< for messages
  std::vector<std::int32_t> tokens = {};
};

class BlockEncoder {
 public:
  BlockEncoder(const data::Tokenizer& tokenizer, std::optional<std::int32_t> end_of_text)
      : encoder_(tokenizer.model()), end_of_text_(end_of_text) {}

  void operator()(EncodingJob& job) {
    try {
      const std::string_view text = job.block.text;
      for (const TextBlock::Span& span : job.block.spans) {
        if (span.end > span.begin)
          encoder_.encode(text.substr(span.begin, span.end - span.begin), span.part, job.tokens);
        if (span.ends_document && end_of_text_) job.tokens.push_back(*end_of_text_);
      }
    } catch (const DataError& wrong) {
      throw DataError(fmt::format("{}: {}", as_written(job.file), as_written(wrong.what())));
    }
  }

 private:
  data::TokenEncoder encoder_;
  std::optional<std::int32_t> end_of_text_;
};

}  // namespace

std::vector<TextRange> whole_texts(const std::vector<std::string>& files) {
  std::vector<TextRange> ranges;
  for (const std::string& file : files)
    ranges.push_back({.file = file, .end = FileReader(file).bytes()});
  return ranges;
}

std::uint64_t bytes_of(const std::vector<TextRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const TextRange& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

TextSplit split_texts(const std::vector<std::string>& files, double fraction) {
  TextSplit split{.train = whole_texts(files), .validation = {}};
  if (fraction == 0) return split;
  const std::uint64_t all = bytes_of(split.train);
  const auto target = std::uint64_t(std::ceil(double(all) * (1 - fraction)));
  std::uint64_t begin = 0;
  std::size_t first = 0;  // of validation
  while (first < split.train.size() && begin < target) begin += split.train[first++].end;
  if (first == split.train.size()) {
    TextRange& last = split.train.back();
    const std::uint64_t before = all - last.end;
    const std::uint64_t cut = line_after(FileReader(last.file), target - before);
    TextRange rest = last;
    rest.begin = cut;
    last.end = cut;
    last.ends_document = false;
    split.validation.push_back(rest);
  } else {
    split.validation.assign(split.train.begin() + std::ptrdiff_t(first), split.train.end());
    split.train.resize(first);
  }
  LOCKSTEP_CHECK(bytes_of(split.train) > 0 && bytes_of(split.validation) > 0,
                 DataError,
                 "{}: {} bytes of text have no last part of {} that begins with a line",
                 as_written(files.back()),
                 all,
                 fraction);
  return split;
}

data::Tokenizer train_tokenizer(const std::vector<TextRange>& texts,
                                std::int64_t vocabulary,
                                const TokenizeOptions& options) {
  const std::vector<data::AddedToken> added{{.text = data::kEndOfText}};
  const data::AddedTokens tokens(added);
  data::WordCounts words;
  for_each_block(
      texts,
      options,
      data::WordPattern::gpt2,
      [&](std::string_view text, std::size_t at) { return !tokens.spans(text, at); },
      [&](TextBlock block, const TextRange&) {
        for (const TextBlock::Span& span : block.spans)
          words.add(std::string_view(block.text).substr(span.begin, span.end - span.begin), added);
      });
  return data::Tokenizer(data::train_byte_pairs(words, vocabulary, {data::kEndOfText}));
}

std::int64_t write_tokens(const std::vector<TextRange>& texts,
                          const data::Tokenizer& tokenizer,
                          const std::string& file,
                          const TokenizeOptions& options) {
  TokenFileWriter writer(
      file,
      {.vocabulary = tokenizer.vocabulary(),
       .end_of_text = options.end_of_text ? options.end_of_text : tokenizer.end_of_text(),
       .tokenizer = tokenizer.fingerprint()});
  std::vector<OrderedPool<EncodingJob>::Work> work;
  for (int i = 0; i < std::max(options.threads, 1); ++i)
    work.emplace_back(BlockEncoder(tokenizer, options.end_of_text));
  OrderedPool<EncodingJob> pool(std::move(work));
  const auto write = [&](EncodingJob& job) { writer.write(job.tokens); };
  for_each_block(
      texts,
      options,
      tokenizer.pairs().pattern,
      [&](std::string_view text, std::size_t at) { return tokenizer.model().may_cut(text, at); },
      [&](TextBlock block, const TextRange& range) {
        pool.give({.block = std::move(block), .file = range.file}, write);
      });
  pool.finish(write);
  writer.finish();
  return writer.tokens();
}

}  // namespace lockstep::io

// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/window_places.h"

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"

namespace lockstep::data {
namespace {

class RandomPlaces final : public WindowPlaces {
 public:
  RandomPlaces(std::int64_t tokens, std::int64_t context, std::uint64_t seed)
      : tokens_(tokens), context_(context), key_(random_key(seed, "token windows")) {}

  std::int64_t size() const override { return (tokens_ - 1) / context_; }
  WindowPlace place(std::uint64_t epoch, std::int64_t index) const override {
    const auto places = std::uint64_t(tokens_ - context_);
    const RandomBlock words = philox(key_, epoch, std::uint64_t(index));
    // 64 random bits: what the remainder favours is below 2^-30 for files of 2^34 tokens.
    return {std::int64_t(((std::uint64_t{words[0]} << 32) | words[1]) % places), context_};
  }
  std::int64_t least_tokens() const override { return context_ + 1; }
  std::string describe() const override { return " at random places"; }
  std::string key() const override { return "true"; }

 private:
  std::int64_t tokens_, context_;
  std::uint64_t key_;
};

class PlacesInOrder final : public WindowPlaces {
 public:
  PlacesInOrder(std::int64_t tokens, std::int64_t context) : tokens_(tokens), context_(context) {}

  std::int64_t size() const override { return (tokens_ - 2) / context_ + 1; }
  WindowPlace place(std::uint64_t, std::int64_t index) const override {
    const std::int64_t first = index * context_;
    return {first, std::min(context_, tokens_ - 1 - first)};
  }
  std::int64_t least_tokens() const override { return 2; }
  std::string describe() const override { return ""; }
  std::string key() const override { return "false"; }

 private:
  std::int64_t tokens_, context_;
};

class DocumentPlaces final : public WindowPlaces {
 public:
  DocumentPlaces(const TokenSequence& sequence, std::int64_t context) : context_(context) {
    LOCKSTEP_CHECK(sequence.end_of_text.has_value(),
                   ConfigError,
                   "data: {}: the file does not say which token ends a document, as files of "
                   "`lockstep tokenize` do, and no tokenizer with <|endoftext|> or "
                   "<|end_of_text|> is known",
                   as_written(sequence.description));
    find_documents(sequence);
    LOCKSTEP_CHECK(!firsts_.empty(),
                   ConfigError,
                   "data: {} has no document of at least 2 tokens",
                   as_written(sequence.description));
  }

  std::int64_t size() const override { return std::int64_t(firsts_.size()); }
  WindowPlace place(std::uint64_t, std::int64_t index) const override {
    return {firsts_[std::size_t(index)], counts_[std::size_t(index)]};
  }
  std::int64_t least_tokens() const override { return 2; }
  std::string describe() const override {
    return fmt::format(" that each lie in one of {} documents", documents_);
  }
  std::string key() const override { return "documents"; }

 private:
  void find_documents(const TokenSequence& sequence) {
    constexpr std::int64_t kPiece = std::int64_t{1} << 20;
    std::vector<std::int32_t> piece;
    std::int64_t begin = 0;  // of the document: the token that ends the one before
    bool starts_with_text = true;
    for (std::int64_t at = 0; at < sequence.count; at += kPiece) {
      piece.resize(std::size_t(std::min(kPiece, sequence.count - at)));
      sequence.store->read(sequence.first + at, piece);
      for (std::size_t i = 0; i < piece.size(); ++i) {
        if (piece[i] != *sequence.end_of_text) continue;
        const std::int64_t end = at + std::int64_t(i);
        // Two that follow one another have no text between them.
        if (end == 0) starts_with_text = false;
        if (end > begin + 1 || (begin == 0 && end == 1 && starts_with_text))
          add_document(begin, end);
        begin = end;
      }
    }
    if (begin + 1 < sequence.count) add_document(begin, sequence.count - 1);
  }
  void add_document(std::int64_t begin, std::int64_t end) {
    ++documents_;
    for (; begin < end; begin += context_) {
      firsts_.push_back(begin);
      counts_.push_back(std::int32_t(std::min(context_, end - begin)));
    }
  }

  std::int64_t context_, documents_ = 0;
  std::vector<std::int64_t> firsts_;
  std::vector<std::int32_t> counts_;
};

}  // namespace

std::unique_ptr<WindowPlaces> random_places(std::int64_t tokens,
                                            std::int64_t context,
                                            std::uint64_t seed) {
  return std::make_unique<RandomPlaces>(tokens, context, seed);
}

std::unique_ptr<WindowPlaces> places_in_order(std::int64_t tokens, std::int64_t context) {
  return std::make_unique<PlacesInOrder>(tokens, context);
}

std::unique_ptr<WindowPlaces> document_places(const TokenSequence& sequence, std::int64_t context) {
  return std::make_unique<DocumentPlaces>(sequence, context);
}

}  // namespace lockstep::data

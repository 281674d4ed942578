// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/token_windows.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/data/content_sample.h"
#include "core/data/ignore_label.h"
#include "lockstep/preprocessing.h"

namespace lockstep::data {
namespace {

class MemoryTokens final : public TokenStore {
 public:
  explicit MemoryTokens(std::vector<std::uint16_t> tokens) : tokens_(std::move(tokens)) {}
  std::int64_t size() const override { return std::int64_t(tokens_.size()); }
  void read(std::int64_t first, std::span<std::uint16_t> to) const override {
    std::copy_n(tokens_.begin() + first, to.size(), to.begin());
  }

 private:
  std::vector<std::uint16_t> tokens_;
};

class TokenWindows final : public Dataset {
 public:
  TokenWindows(TokenSequence sequence,
               std::int64_t context,
               bool random,
               std::uint64_t seed,
               std::optional<std::int32_t> ignored)
      : sequence_(std::move(sequence)),
        context_(context),
        random_(random),
        key_(random_key(seed, "token windows")),
        ignored_(ignored) {
    LOCKSTEP_CHECK(
        context >= 1, ConfigError, "data: expected a context of at least 1 token, got {}", context);
    const std::int64_t least = random ? context + 1 : 2;
    LOCKSTEP_CHECK(tokens() >= least,
                   ConfigError,
                   "data: {} has {} tokens, a context of {} needs at least {}; use a smaller "
                   "`context`, or more "
                   "text",
                   as_written(sequence_.description),
                   tokens(),
                   context,
                   least);
    spec_.input = {{context}, DType::i32};
    spec_.target = {{context}, DType::i32};
    spec_.classes = int(sequence_.vocabulary);
    spec_.ignore_index = kIgnoreIndex;
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override {
    return random_ ? (tokens() - 1) / context_ : (tokens() - 2) / context_ + 1;
  }

  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    auto* x = reinterpret_cast<std::int32_t*>(input);
    auto* y = reinterpret_cast<std::int32_t*>(target);
    const std::int64_t first = random_ ? random_place(epoch, index) : index * context_;
    const std::int64_t count = std::min(context_, tokens() - 1 - first);
    static thread_local std::vector<std::uint16_t> from;
    from.resize(std::size_t(count) + 1);
    sequence_.store->read(sequence_.first + first, from);
    std::copy_n(from.data(), count, x);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint16_t next = from[std::size_t(i) + 1];
      check(next, first + i + 1);
      y[i] = ignored_ == std::int32_t(next) ? kIgnoreIndex : std::int32_t(next);
    }
    check(from[0], first);
    std::fill(x + count, x + context_, 0);
    std::fill(y + count, y + context_, kIgnoreIndex);
  }

  std::string describe() const override {
    return fmt::format("{}, {} tokens of a vocabulary of {}, {} windows of {}{}",
                       as_written(sequence_.description),
                       tokens(),
                       sequence_.vocabulary,
                       size(),
                       context_,
                       random_ ? " at random places" : "");
  }
  std::vector<std::string> class_names() const override { return sequence_.token_names; }
  Preprocessing preprocessing() const override {
    Preprocessing record = Dataset::preprocessing();
    record.source = sequence_.token_names.empty() ? "tokens" : "text";
    return record;
  }
  std::uint64_t fingerprint() const override {
    return random_key(sequence_.hash,
                      fmt::format("{} {} {} {}",
                                  tokens(),
                                  context_,
                                  random_,
                                  ignored_ ? std::to_string(*ignored_) : "none"));
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    return sequence_.file.empty() ? ContentSample{} : sample_file(sequence_.file, seed);
  }

 private:
  std::int64_t tokens() const { return sequence_.count; }

  std::int64_t random_place(std::uint64_t epoch, std::int64_t index) const {
    const auto places = std::uint64_t(tokens() - context_);
    const RandomBlock words = philox(key_, epoch, std::uint64_t(index));
    // 64 random bits: what the remainder favours is below 2^-30 for files of 2^34 tokens.
    return std::int64_t(((std::uint64_t{words[0]} << 32) | words[1]) % places);
  }

  void check(std::uint16_t token, std::int64_t place) const {
    LOCKSTEP_CHECK(
        std::int64_t(token) < sequence_.vocabulary,
        DataError,
        "{}: token {} at position {} is past the vocabulary of {}; say its true size with "
        "`vocabulary`",
        as_written(sequence_.description),
        token,
        place,
        sequence_.vocabulary);
  }

  TokenSequence sequence_;
  std::int64_t context_;
  bool random_;
  std::uint64_t key_;
  std::optional<std::int32_t> ignored_;
  SampleSpec spec_;
};

}  // namespace

TokenSequence TokenSequence::part(std::int64_t begin,
                                  std::int64_t size,
                                  const std::string& name) const {
  TokenSequence result = *this;
  result.first = first + begin;
  result.count = size;
  result.description = fmt::format("{} ({})", description, name);
  return result;
}

TokenSequence whole_sequence(std::shared_ptr<const TokenStore> store,
                             std::string description,
                             std::int64_t vocabulary) {
  TokenSequence sequence;
  sequence.count = store->size();
  sequence.store = std::move(store);
  sequence.description = std::move(description);
  sequence.vocabulary = vocabulary;
  return sequence;
}

std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::uint16_t> tokens) {
  return std::make_shared<MemoryTokens>(std::move(tokens));
}

std::shared_ptr<const Dataset> random_windows(TokenSequence sequence,
                                              std::int64_t context,
                                              std::uint64_t seed,
                                              std::optional<std::int32_t> ignored) {
  return std::make_shared<TokenWindows>(std::move(sequence), context, true, seed, ignored);
}

std::shared_ptr<const Dataset> windows_in_order(TokenSequence sequence,
                                                std::int64_t context,
                                                std::optional<std::int32_t> ignored) {
  return std::make_shared<TokenWindows>(std::move(sequence), context, false, 0, ignored);
}

}  // namespace lockstep::data

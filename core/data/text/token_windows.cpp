// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/token_windows.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/data/content_sample.h"
#include "core/data/ignore_label.h"
#include "core/data/text/window_places.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {
namespace {

void check_context(std::int64_t context) {
  LOCKSTEP_CHECK(
      context >= 1, ConfigError, "data: expected a context of at least 1 token, got {}", context);
}

class TokenWindows final : public Dataset {
 public:
  TokenWindows(TokenSequence sequence,
               std::int64_t context,
               std::unique_ptr<WindowPlaces> places,
               std::optional<std::int32_t> ignored)
      : sequence_(std::move(sequence)),
        context_(context),
        places_(std::move(places)),
        ignored_(ignored) {
    const std::int64_t least = places_->least_tokens();
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
  std::int64_t size() const override { return places_->size(); }

  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    auto* x = reinterpret_cast<std::int32_t*>(input);
    auto* y = reinterpret_cast<std::int32_t*>(target);
    const auto [first, count] = places_->place(epoch, index);
    static thread_local std::vector<std::int32_t> from;
    from.resize(std::size_t(count) + 1);
    sequence_.store->read(sequence_.first + first, from);
    std::copy_n(from.data(), count, x);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t next = from[std::size_t(i) + 1];
      check(next, first + i + 1);
      y[i] = ignored_ == next ? kIgnoreIndex : next;
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
                       places_->describe());
  }
  std::vector<std::string> class_names() const override { return sequence_.token_names; }
  Preprocessing preprocessing() const override {
    Preprocessing record = Dataset::preprocessing();
    record.source = sequence_.token_names.empty() ? "tokens" : "text";
    record.tokenizer = sequence_.tokenizer;
    return record;
  }
  std::uint64_t fingerprint() const override {
    return random_key(sequence_.hash,
                      fmt::format("{} {} {} {}",
                                  tokens(),
                                  context_,
                                  places_->key(),
                                  ignored_ ? std::to_string(*ignored_) : "none"));
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    return sequence_.file.empty() ? ContentSample{} : sample_file(sequence_.file, seed);
  }

 private:
  std::int64_t tokens() const { return sequence_.count; }

  void check(std::int32_t token, std::int64_t place) const {
    LOCKSTEP_CHECK(
        token >= 0 && token < sequence_.vocabulary,
        DataError,
        "{}: token {} at position {} is past the vocabulary of {}; say its true size with "
        "`vocabulary`",
        as_written(sequence_.description),
        std::uint32_t(token),
        place,
        sequence_.vocabulary);
  }

  TokenSequence sequence_;
  std::int64_t context_;
  std::unique_ptr<WindowPlaces> places_;
  std::optional<std::int32_t> ignored_;
  SampleSpec spec_;
};

}  // namespace

std::shared_ptr<const Dataset> random_windows(TokenSequence sequence,
                                              std::int64_t context,
                                              std::uint64_t seed,
                                              std::optional<std::int32_t> ignored) {
  check_context(context);
  auto places = random_places(sequence.count, context, seed);
  return std::make_shared<TokenWindows>(std::move(sequence), context, std::move(places), ignored);
}

std::shared_ptr<const Dataset> windows_in_order(TokenSequence sequence,
                                                std::int64_t context,
                                                std::optional<std::int32_t> ignored) {
  check_context(context);
  auto places = places_in_order(sequence.count, context);
  return std::make_shared<TokenWindows>(std::move(sequence), context, std::move(places), ignored);
}

std::shared_ptr<const Dataset> document_windows(TokenSequence sequence,
                                                std::int64_t context,
                                                std::optional<std::int32_t> ignored) {
  check_context(context);
  auto places = document_places(sequence, context);
  return std::make_shared<TokenWindows>(std::move(sequence), context, std::move(places), ignored);
}

}  // namespace lockstep::data

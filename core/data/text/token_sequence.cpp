// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/token_sequence.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace lockstep::data {
namespace {

template <typename T>
class MemoryTokens final : public TokenStore {
 public:
  explicit MemoryTokens(std::vector<T> tokens) : tokens_(std::move(tokens)) {}
  std::int64_t size() const override { return std::int64_t(tokens_.size()); }
  void read(std::int64_t first, std::span<std::int32_t> to) const override {
    std::copy_n(tokens_.begin() + first, to.size(), to.begin());
  }

 private:
  std::vector<T> tokens_;
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
  return std::make_shared<MemoryTokens<std::uint16_t>>(std::move(tokens));
}

std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::int32_t> tokens) {
  return std::make_shared<MemoryTokens<std::int32_t>>(std::move(tokens));
}

}  // namespace lockstep::data

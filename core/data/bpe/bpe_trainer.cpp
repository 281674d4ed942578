// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "core/base/check.h"
#include "core/data/bpe/byte_alphabet.h"
#include "core/data/bpe/pre_tokenizer.h"
#include "core/data/bpe/tokenizer_model.h"

namespace lockstep::data {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto key = std::uint64_t(std::uint32_t(pair.first)) << 32 | std::uint32_t(pair.second);
    return std::size_t((key ^ key >> 29) * 0x9E3779B97F4A7C15u >> 16);
  }
};

/// All words one after the other, each as its tokens, of which merges leave fewer.
struct Words {
  std::vector<std::int32_t> tokens;
  std::vector<std::size_t> begins;
  std::vector<std::int32_t> sizes;
  std::vector<std::int64_t> counts;
};

/// A pair that may be merged next, and the words that it was found in.
struct Candidate {
  std::int64_t count = 0;
  Pair pair = {};
  std::size_t place = 0;  ///< of its words; of equal candidates the older is first
  /// The order of a queue: the most frequent, of equal ones that of the smaller numbers.
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    if (pair != other.pair) return pair > other.pair;
    return place > other.place;
  }
};

class Trainer {
 public:
  Trainer(Words words, BytePairs& pairs) : words_(std::move(words)), pairs_(pairs) {
    for (std::size_t i = 0; i < pairs.tokens.size(); ++i)
      numbers_[pairs.tokens[i]] = std::int32_t(i);
    count_pairs();
  }

  /// Until there are `tokens`, or no pair occurs.
  void merge_until(std::size_t tokens) {
    while (pairs_.tokens.size() < tokens && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      if (const std::int64_t now = counts_[best.pair]; best.count != now) {
        best.count = now;
        queue_.push(best);
        continue;
      }
      if (best.count < 1) return;
      merge(best);
    }
  }

 private:
  using Found = std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash>;

  static void note(Found& found, const Pair& pair, std::size_t word) {
    std::vector<std::uint32_t>& words = found[pair];
    if (words.empty() || words.back() != word) words.push_back(std::uint32_t(word));
  }

  void count_pairs() {
    Found found;
    for (std::size_t word = 0; word < words_.sizes.size(); ++word) {
      const std::int32_t* tokens = words_.tokens.data() + words_.begins[word];
      for (std::int32_t i = 0; i + 1 < words_.sizes[word]; ++i) {
        const Pair pair{tokens[i], tokens[i + 1]};
        counts_[pair] += words_.counts[word];
        note(found, pair, word);
      }
    }
    push(found);
  }

  void push(Found& found) {
    std::vector<Pair> order;  // a map's is not the same in every library
    for (const auto& [pair, words] : found) order.push_back(pair);
    std::ranges::sort(order);
    for (const Pair& pair : order) {
      const std::int64_t count = counts_[pair];
      if (count <= 0) continue;
      queue_.push({count, pair, places_.size()});
      places_.push_back(std::move(found[pair]));
    }
  }

  void merge(const Candidate& best) {
    const std::string text =
        pairs_.tokens[std::size_t(best.pair.first)] + pairs_.tokens[std::size_t(best.pair.second)];
    const auto [number, is_new] = numbers_.emplace(text, std::int32_t(pairs_.tokens.size()));
    if (is_new) pairs_.tokens.push_back(text);
    pairs_.merges.push_back(best.pair);
    Found found;
    for (const std::uint32_t word : places_[best.place])
      merge_in(word, best.pair, number->second, found);
    std::vector<std::uint32_t>().swap(places_[best.place]);
    push(found);
  }

  /// Counts what changes around each place of the pair as merges leave the tokens before it, and
  /// as they still are after it.
  void merge_in(std::uint32_t word, const Pair& pair, std::int32_t merged, Found& found) {
    std::int32_t* tokens = words_.tokens.data() + words_.begins[word];
    const std::int64_t count = words_.counts[word];
    const std::int32_t size = words_.sizes[word];
    std::int32_t kept = 0;
    const auto change = [&](const Pair& before, const Pair& after) {
      counts_[before] -= count;
      counts_[after] += count;
      note(found, after, word);
    };
    for (std::int32_t i = 0; i < size; ++i) {
      if (i + 1 == size || tokens[i] != pair.first || tokens[i + 1] != pair.second) {
        tokens[kept++] = tokens[i];
        continue;
      }
      if (kept > 0) change({tokens[kept - 1], pair.first}, {tokens[kept - 1], merged});
      if (i + 2 < size) change({pair.second, tokens[i + 2]}, {merged, tokens[i + 2]});
      tokens[kept++] = merged;
      ++i;
    }
    words_.sizes[word] = kept;
  }

  Words words_;
  BytePairs& pairs_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::vector<std::vector<std::uint32_t>> places_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void WordCounts::add(std::string_view text, const std::vector<AddedToken>& added) {
  const AddedTokens tokens(added);
  bytes_ += std::int64_t(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const AddedPlace next = tokens.find(text, begin);
    const std::string_view part = text.substr(begin, std::min(next.begin, text.size()) - begin);
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t end = word_end(part, at, WordPattern::gpt2);
      const std::string_view word = part.substr(at, end - at);
      if (const auto found = counts_.find(word); found != counts_.end())
        ++found->second;
      else
        counts_.emplace(word, 1);
      at = end;
    }
    begin = next.end == std::string_view::npos ? text.size() : next.end;
  }
}

void WordCounts::add(const WordCounts& other) {
  bytes_ += other.bytes_;
  for (const auto& [word, count] : other.counts_) counts_[word] += count;
}

BytePairs train_byte_pairs(const WordCounts& words,
                           std::int64_t vocabulary,
                           std::vector<std::string> added) {
  const std::int64_t least = 256 + std::int64_t(added.size());
  LOCKSTEP_CHECK(vocabulary >= least,
                 ConfigError,
                 "`vocabulary`: expected at least {}, of which 256 are bytes, got {}",
                 least,
                 vocabulary);
  BytePairs pairs;
  std::array<std::int32_t, 256> numbers{};
  for (const unsigned char byte : bytes_in_order()) {
    numbers[byte] = std::int32_t(pairs.tokens.size());
    pairs.tokens.emplace_back(1, char(byte));
  }
  // Words in one order, so that every library makes the same tables.
  std::vector<std::pair<std::string_view, std::int64_t>> sorted(words.counts_.begin(),
                                                                words.counts_.end());
  std::ranges::sort(sorted);
  Words all;
  for (const auto& [word, count] : sorted) {
    all.begins.push_back(all.tokens.size());
    all.sizes.push_back(std::int32_t(word.size()));
    all.counts.push_back(count);
    for (const char byte : word) all.tokens.push_back(numbers[static_cast<unsigned char>(byte)]);
  }
  Trainer(std::move(all), pairs).merge_until(std::size_t(vocabulary) - added.size());
  for (std::string& text : added) {
    pairs.added.push_back({.text = text, .id = std::int32_t(pairs.tokens.size())});
    pairs.tokens.push_back(std::move(text));
  }
  return pairs;
}

}  // namespace lockstep::data

// SPDX-License-Identifier: Apache-2.0
#include "core/data/bpe/token_encoder.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/data/bpe/pre_tokenizer.h"

namespace lockstep::data {
namespace {

/// Words that are remembered: 2 MiB, which fit the cache of a core.
constexpr std::size_t kKnownWords = std::size_t{1} << 15;

/// Above, the time of looking for the next merge, which grows with the square of a word's bytes,
/// exceeds that of keeping a heap.
constexpr std::size_t kShortWord = 64;

/// Calls `between(begin, end)` for what lies between added tokens, and appends these.
template <typename Between>
void split_at_added(const AddedTokens& added,
                    std::string_view text,
                    std::vector<std::int32_t>& tokens,
                    const Between& between) {
  std::size_t begin = 0;
  for (;;) {
    const AddedPlace next = added.find(text, begin);
    const std::size_t end = std::min(next.begin, text.size());
    if (end > begin) between(begin, end);
    if (next.token < 0) return;
    tokens.push_back(next.token);
    begin = next.end;
  }
}

}  // namespace

TokenEncoder::TokenEncoder(const TokenizerModel& model) : model_(model), known_(kKnownWords) {}

void TokenEncoder::encode(std::string_view text, TextPart part, std::vector<std::int32_t>& tokens) {
  split_at_added(model_.first_added(), text, tokens, [&](std::size_t begin, std::size_t end) {
    encode_later(text.substr(begin, end - begin), begin == 0 ? part : TextPart::first, tokens);
  });
}

void TokenEncoder::encode_later(std::string_view text,
                                TextPart part,
                                std::vector<std::int32_t>& tokens) {
  split_at_added(model_.later_added(), text, tokens, [&](std::size_t begin, std::size_t end) {
    encode_words(text.substr(begin, end - begin), begin == 0 ? part : TextPart::first, tokens);
  });
}

void TokenEncoder::encode_words(std::string_view text,
                                TextPart part,
                                std::vector<std::int32_t>& tokens) {
  if (model_.pairs().add_prefix_space && part == TextPart::first && text[0] != ' ') {
    prefixed_.assign(" ").append(text);
    text = prefixed_;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(text, at, model_.pairs().pattern);
    encode_word(text.substr(at, end - at), tokens);
    at = end;
  }
}

void TokenEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& tokens) {
  if (word.size() > Known::kMaxBytes) return find_or_merge(word, tokens);
  std::array<char, sizeof(Known::Key)> bytes{};
  std::memcpy(bytes.data(), word.data(), word.size());
  bytes.back() = char(word.size());
  Known::Key key;
  std::memcpy(&key, bytes.data(), sizeof key);
  const std::uint64_t mixed = (key[0] * 0x9E3779B97F4A7C15u) ^ (key[1] * 0xC2B2AE3D27D4EB4Fu) ^
                              (key[2] * 0x165667B19E3779F9u);
  Known& known = known_[(mixed ^ mixed >> 29) * 0x9E3779B97F4A7C15u >> 32 & (kKnownWords - 1)];
  if (known.key != key) {
    const std::size_t before = tokens.size();
    find_or_merge(word, tokens);
    const std::size_t count = tokens.size() - before;
    if (count > Known::kMaxTokens) return;
    known.key = key;
    known.count = std::int32_t(count);
    std::copy(tokens.begin() + std::ptrdiff_t(before), tokens.end(), known.tokens.begin());
    return;
  }
  tokens.insert(tokens.end(), known.tokens.begin(), known.tokens.begin() + known.count);
}

void TokenEncoder::find_or_merge(std::string_view word, std::vector<std::int32_t>& tokens) {
  if (model_.pairs().ignore_merges)
    if (const std::int32_t token = model_.find(word); token >= 0) return tokens.push_back(token);
  word.size() <= kShortWord ? merge_short(word, tokens) : merge_long(word, tokens);
}

std::int32_t TokenEncoder::byte_token(char byte) const {
  const auto value = static_cast<unsigned char>(byte);
  const std::int32_t token = model_.byte_token(value);
  LOCKSTEP_CHECK(token >= 0,
                 DataError,
                 "the text holds the byte 0x{:02x}, which is not a token of the tokenizer",
                 unsigned(value));
  return token;
}

void TokenEncoder::merge_short(std::string_view word, std::vector<std::int32_t>& tokens) {
  std::array<std::int32_t, kShortWord> parts;
  std::array<Merge, kShortWord> merges;  // of each part and the next
  std::size_t count = word.size();
  for (std::size_t i = 0; i < count; ++i) parts[i] = byte_token(word[i]);
  const MergeTable& table = model_.merges();
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = table.find(parts[i], parts[i + 1]);
  for (;;) {
    std::size_t best = count;
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (merges[i].rank >= 0 && (best == count || merges[i].rank < merges[best].rank)) best = i;
    if (best == count) break;
    parts[best] = merges[best].token;
    --count;
    std::copy(parts.data() + best + 2, parts.data() + count + 1, parts.data() + best + 1);
    if (best + 2 < count)
      std::copy(merges.data() + best + 2, merges.data() + count, merges.data() + best + 1);
    if (best > 0) merges[best - 1] = table.find(parts[best - 1], parts[best]);
    if (best + 1 < count) merges[best] = table.find(parts[best], parts[best + 1]);
  }
  tokens.insert(tokens.end(), parts.data(), parts.data() + count);
}

void TokenEncoder::add_candidate(std::int32_t place, std::vector<Candidate>& heap) {
  if (place < 0) return;
  const Symbol& left = symbols_[std::size_t(place)];
  if (left.next < 0) return;
  const std::int32_t right = symbols_[std::size_t(left.next)].token;
  if (const Merge merge = model_.merges().find(left.token, right); merge.rank >= 0) {
    heap.push_back({merge.rank, place, left.token, right});
    std::push_heap(heap.begin(), heap.end());
  }
}

void TokenEncoder::merge_long(std::string_view word, std::vector<std::int32_t>& tokens) {
  LOCKSTEP_CHECK(word.size() <= kMaxWordBytes,
                 DataError,
                 "a word of {} bytes, without a space, a digit or a sign after a letter: at most "
                 "{} are supported",
                 word.size(),
                 kMaxWordBytes);
  const auto count = std::int32_t(word.size());
  symbols_.resize(word.size());
  for (std::int32_t i = 0; i < count; ++i)
    symbols_[std::size_t(i)] = {
        byte_token(word[std::size_t(i)]), i - 1, i + 1 < count ? i + 1 : -1};
  std::vector<Candidate> heap;
  for (std::int32_t i = 0; i < count; ++i) add_candidate(i, heap);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols_[std::size_t(best.place)];
    // One of the two may have become part of another token since.
    if (left.token != best.left || left.next < 0) continue;
    Symbol& right = symbols_[std::size_t(left.next)];
    if (right.token != best.right) continue;
    left.token = model_.merges().find(best.left, best.right).token;
    right.token = -1;
    left.next = right.next;
    if (left.next >= 0) symbols_[std::size_t(left.next)].previous = best.place;
    add_candidate(left.previous, heap);
    add_candidate(best.place, heap);
  }
  for (std::int32_t at = 0; at >= 0; at = symbols_[std::size_t(at)].next)
    tokens.push_back(symbols_[std::size_t(at)].token);
}

}  // namespace lockstep::data

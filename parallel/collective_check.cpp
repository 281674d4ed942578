// SPDX-License-Identifier: Apache-2.0
#include "parallel/collective_check.h"

#include <cstring>

#include "core/base/error.h"

namespace lockstep {
namespace {

/// A call as it travels.
struct Card {
  std::uint64_t number = 0, sizes = 0;
  std::int64_t bytes = 0, step = 0;
  std::uint32_t kind = 0;
  std::int32_t root = -1;
};
constexpr std::size_t kCardWords = sizeof(Card) / 4;
static_assert(sizeof(Card) % 4 == 0 && sizeof(float) == 4);

Card card_at(const std::uint32_t* words) {
  Card card;
  std::memcpy(static_cast<void*>(&card), words, sizeof card);
  return card;
}

std::string ordinal(std::uint64_t number) {
  const std::uint64_t tens = number % 100, ones = number % 10;
  const bool teen = tens >= 11 && tens <= 13;
  return fmt::format("{}{}",
                     number,
                     teen        ? "th"
                     : ones == 1 ? "st"
                     : ones == 2 ? "nd"
                     : ones == 3 ? "rd"
                                 : "th");
}

std::string words_for(const Card& card) {
  constexpr const char* kNames[] = {"barrier",
                                    "broadcast",
                                    "all-gather",
                                    "all-gather of several sizes,",
                                    "all-to-all",
                                    "all-gather of blocks,",
                                    "all-reduce",
                                    "split"};
  std::string text = kNames[card.kind % std::size(kNames)];
  using Kind = CollectiveCall::Kind;
  if (card.kind != std::uint32_t(Kind::barrier) && card.kind != std::uint32_t(Kind::split))
    text += fmt::format(" of {} bytes", card.bytes);
  if (card.root >= 0) text += fmt::format(" from {}", card.root);
  if (card.step > 0) text += fmt::format(" in step {}", card.step);
  return text;
}

bool agree(const Card& a, const Card& b) {
  const bool sizes_differ = a.kind != std::uint32_t(CollectiveCall::Kind::all_to_all);
  return a.number == b.number && a.kind == b.kind && a.root == b.root && a.sizes == b.sizes &&
         a.step == b.step && (!sizes_differ || a.bytes == b.bytes);
}

[[noreturn]] void fail(const std::string& what) {
  throw CommError(what,
                  "all ranks must call the same collectives in the same order with the same sizes");
}

}  // namespace

CollectiveCheck::CollectiveCheck(std::unique_ptr<Communicator> channel)
    : channel_(std::move(channel)),
      words_(kCardWords + 2 * static_cast<std::size_t>(channel_->size())) {}

std::uint64_t CollectiveCheck::tell(const CollectiveCall& call, std::function<void()> start) {
  if (!broken_.empty()) fail(broken_);
  const auto ranks = std::size_t(channel_->size());
  Waiting& waiting = waiting_.emplace_back();
  waiting.cards.resize(ranks * words_);
  for (std::size_t r = 0; r < ranks; ++r)
    waiting.blocks.push_back({std::int64_t(r * words_), std::int64_t(words_)});
  const Card card{++told_, call.sizes, call.bytes, call.step, std::uint32_t(call.kind), call.root};
  std::uint32_t* own = waiting.cards.data() + std::size_t(channel_->rank()) * words_;
  std::memcpy(own, &card, sizeof card);
  for (std::size_t r = 0; r < call.to.size(); ++r) {
    own[kCardWords + r] = std::uint32_t(call.to[r].elems);
    own[kCardWords + ranks + r] = std::uint32_t(call.from[r].elems);
  }
  waiting.start = std::move(start);
  waiting.request =
      channel_->start_all_gather(reinterpret_cast<float*>(waiting.cards.data()), waiting.blocks);
  return told_;
}

bool CollectiveCheck::test(std::uint64_t number) {
  if (!broken_.empty()) fail(broken_);
  while (!waiting_.empty() && waiting_.front().request->test()) {
    try {
      compare(waiting_.front());
    } catch (const CommError& error) {
      broken_ = error.what();
      throw;
    }
    waiting_.front().start();
    waiting_.pop_front();
    ++started_;
  }
  return started_ >= number;
}

void CollectiveCheck::wait(std::uint64_t number) {
  while (!test(number)) {
  }
}

void CollectiveCheck::compare(const Waiting& waiting) const {
  const auto ranks = std::size_t(channel_->size());
  const auto of = [&](std::size_t rank) { return waiting.cards.data() + rank * words_; };
  const Card first = card_at(of(0));
  for (std::size_t r = 1; r < ranks; ++r) {
    const Card other = card_at(of(r));
    if (agree(first, other)) continue;
    fail(
        fmt::format("ranks call different collectives: rank 0 called {} as its {} collective, "
                    "rank {} {}{}",
                    words_for(first),
                    ordinal(first.number),
                    r,
                    words_for(other),
                    words_for(first) == words_for(other) ? " with other sizes of blocks" : ""));
  }
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t s = 0; s < ranks; ++s) {
      const std::uint32_t sends = of(r)[kCardWords + s], expects = of(s)[kCardWords + ranks + r];
      if (sends == expects) continue;
      fail(
          fmt::format("ranks call different collectives: in its {} collective, an all-to-all, rank "
                      "{} sends {} elements to rank {}, which expects {}",
                      ordinal(first.number),
                      r,
                      sends,
                      s,
                      expects));
    }
}

}  // namespace lockstep

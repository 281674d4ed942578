// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/collective_validator.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using Card = CallCard;
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

bool agree(const Card& a, const Card& b) {
  const bool sizes_differ = a.kind != std::uint32_t(CollectiveCall::Kind::all_to_all);
  return a.number == b.number && a.kind == b.kind && a.root == b.root && a.sizes == b.sizes &&
         a.step == b.step && (!sizes_differ || a.bytes == b.bytes);
}

}  // namespace

CollectiveValidator::CollectiveValidator(std::unique_ptr<Communicator> channel,
                                         std::shared_ptr<DeadlockDetector> detector)
    : channel_(std::move(channel)),
      detector_(std::move(detector)),
      number_(detector_->add(*this, *channel_)),
      words_(kCardWords + 2 * static_cast<std::size_t>(channel_->size())) {}

CollectiveValidator::~CollectiveValidator() {
  detector_->remove(*this);
  if (waiting_->empty() || !detector_->broken()) return;
  (void)waiting_.release();
  (void)channel_.release();
}

std::uint64_t CollectiveValidator::tell(const CollectiveCall& call, std::function<void()> start) {
  detector_->advance();
  const auto ranks = std::size_t(channel_->size());
  Waiting waiting;
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
  Waiting& last = waiting_->emplace_back(std::move(waiting));
  try {
    last.request =
        channel_->start_all_gather(reinterpret_cast<float*>(last.cards.data()), last.blocks);
  } catch (...) {
    waiting_->pop_back();
    throw;
  }
  detector_->announced(number_);
  return told_;
}

void CollectiveValidator::advance() {
  while (!waiting_->empty() && waiting_->front().request->test()) {
    detector_->moved();
    compare(waiting_->front());
    waiting_->front().start();
    waiting_->pop_front();
    ++started_;
  }
}

bool CollectiveValidator::test(std::uint64_t number) {
  detector_->advance();
  if (started_ >= number) return true;
  const std::size_t own = std::size_t(channel_->rank()) * words_;
  detector_->waits(number_, card_at(waiting_->front().cards.data() + own));
  return false;
}

void CollectiveValidator::wait(std::uint64_t number) {
  while (!test(number)) {
  }
}

FaultingRank CollectiveValidator::faulting_rank(int rank, std::int64_t step) const {
  return number_ < 0 ? FaultingRank{} : detector_->faulting_rank(rank, step);
}

void CollectiveValidator::compare(const Waiting& waiting) const {
  const auto of = [&](int rank) {
    return card_at(waiting.cards.data() + std::size_t(rank) * words_);
  };
  const Odd odd = find_odd(channel_->size(), [&](int a, int b) { return agree(of(a), of(b)); });
  if (odd.rank < 0) return compare_blocks(waiting);
  const auto [low, high] = std::minmax(odd.reference, odd.rank);
  const std::string a = format_call(of(low)), b = format_call(of(high));
  throw MismatchError(
      fmt::format("rank {} called {} as its {} collective, rank {} {}{}",
                  low,
                  a,
                  ordinal(of(low).number),
                  high,
                  b,
                  a == b ? " with other sizes of blocks" : ""),
      odd.is_minority ? faulting_rank(odd.rank, of(odd.rank).step) : FaultingRank{});
}

/// Of an all-to-all: what each rank sends to each has to be what that one expects.
void CollectiveValidator::compare_blocks(const Waiting& waiting) const {
  const auto ranks = std::size_t(channel_->size());
  const auto of = [&](std::size_t rank) { return waiting.cards.data() + rank * words_; };
  std::vector<int> wrong(ranks, 0);
  std::string what;
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t s = 0; s < ranks; ++s) {
      const std::uint32_t sends = of(r)[kCardWords + s], expects = of(s)[kCardWords + ranks + r];
      if (sends == expects) continue;
      ++wrong[r];
      ++wrong[s];
      if (!what.empty()) continue;
      what = fmt::format(
          "in its {} collective, an all-to-all, rank {} sends {} elements to rank {}, which "
          "expects {}",
          ordinal(card_at(of(r)).number),
          r,
          sends,
          s,
          expects);
    }
  if (what.empty()) return;
  // A rank that agrees with no other is the one that differs.
  const auto most = std::ranges::max_element(wrong);
  const bool alone = std::ranges::count(wrong, *most) == 1;
  const auto rank = int(most - wrong.begin());
  throw MismatchError(
      what, alone ? faulting_rank(rank, card_at(of(std::size_t(rank))).step) : FaultingRank{});
}

}  // namespace lockstep

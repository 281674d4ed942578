// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/deadlock_detector.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

#include "core/exec/agreement.h"
#include "core/host/machine.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {

std::string format_call(const CallCard& call) {
  constexpr const char* kNames[] = {"barrier",
                                    "broadcast",
                                    "gather",
                                    "all-gather",
                                    "all-gather of several sizes,",
                                    "all-to-all",
                                    "all-gather of blocks,",
                                    "all-reduce",
                                    "all-reduce of integers",
                                    "split"};
  constexpr std::uint32_t kBarrier = 0, kGather = 2, kSplit = std::size(kNames) - 1;
  std::string text = kNames[call.kind % std::size(kNames)];
  if (call.kind != kBarrier && call.kind != kSplit) text += fmt::format(" of {} bytes", call.bytes);
  if (call.root >= 0)
    text += fmt::format(" {} {}", call.kind == kGather ? "to" : "from", call.root);
  if (call.step > 0) text += fmt::format(" in step {}", call.step);
  return text;
}

MismatchError::MismatchError(const std::string& message, FaultingRank faulting_rank)
    : CommError("ranks call different collectives: " + message,
                "all ranks must call the same collectives in the same order with the same sizes"),
      FaultingRank(std::move(faulting_rank)) {}

DeadlockDetector::DeadlockDetector(Communicator& world, const Position& position)
    : position_(position),
      channel_(world.split(0, world.rank())),
      last_channel_(world.split(0, world.rank())),
      rank_(world.rank()),
      ranks_(world.size()),
      now_(std::size_t(ranks_)),
      before_(std::size_t(ranks_)) {
  static_assert(sizeof(Standing) % sizeof(float) == 0);
  constexpr auto kFloats = std::int64_t(sizeof(Standing) / sizeof(float));
  for (int r = 0; r < ranks_; ++r) blocks_.push_back({r * kFloats, kFloats});
  hosts_ = gather_common_strings(*last_channel_, host_name());
}

DeadlockDetector::~DeadlockDetector() {
  if (broken_ || std::uncaught_exceptions() > 0) {
    if (!round_) return;
    (void)round_.release();
    (void)channel_.release();
    new std::vector<Standing>(std::move(now_));  // MPI may still write there
    return;
  }
  try {
    // Ranks that know of fewer rounds miss one at most: a round takes all of them.
    const std::uint64_t most = largest(*last_channel_, rounds_);
    if (round_) round_->wait();
    while (rounds_ < most) {
      round_.reset();
      post();
      round_->wait();
    }
  } catch (const Error&) {  // the communicators say so too
  }
}

int DeadlockDetector::add(PendingCalls& calls, const Communicator& communicator) {
  pending_.push_back(&calls);
  const bool followed = communicator.size() == ranks_ && communicator.rank() == rank_;
  // Counted all the same: a group of another rank may be one of all ranks in another order.
  const int number = added_++;
  return followed && number < kCommunicators ? number : -1;
}

void DeadlockDetector::remove(PendingCalls& calls) { std::erase(pending_, &calls); }

void DeadlockDetector::advance() {
  if (broken_) std::rethrow_exception(broken_);
  try {
    for (PendingCalls* const calls : pending_) calls->advance();
    if (round_ && round_->test()) take_round();
  } catch (const MismatchError&) {
    broken_ = std::current_exception();
    throw;
  }
}

void DeadlockDetector::announced(int communicator) {
  if (communicator >= 0) ++told_[std::size_t(communicator)];
  moved();
}

void DeadlockDetector::moved() {
  ++moves_;
  awaited_ = {};
  elsewhere_ = 0;
  still_since_.reset();
}

void DeadlockDetector::waits(int communicator, const CallCard& call) {
  if (communicator >= 0)
    awaited_[std::size_t(communicator)] = call.number;
  else
    elsewhere_ = 1;
  // Whoever only looks in passing continues by itself.
  if (position_.read().collective.name == nullptr) return still_since_.reset();
  const auto now = Clock::now();
  if (!still_since_) still_since_ = now;
  using Seconds = std::chrono::duration<double>;
  if (round_ || Seconds(now - *still_since_).count() < kStillSeconds ||
      Seconds(now - posted_).count() < kRoundSeconds)
    return;
  posted_ = now;
  call_ = call;
  communicator_ = communicator;
  post();
}

void DeadlockDetector::post() {
  Standing& own = now_[std::size_t(rank_)];
  own = {.moves = moves_,
         .announced = told_,
         .awaited = awaited_,
         .call = call_,
         .communicator = communicator_,
         .elsewhere = elsewhere_};
  ++rounds_;
  round_ = channel_->start_all_gather(reinterpret_cast<float*>(now_.data()), blocks_);
}

void DeadlockDetector::take_round() {
  round_.reset();
  const bool unmoved = std::ranges::equal(
      now_, before_, [](const Standing& a, const Standing& b) { return a.moves == b.moves; });
  if (rounds_ > 1 && unmoved && all_ranks_wait()) fail();
  before_ = now_;
}

/// No call that a rank waits for has been announced by all.
bool DeadlockDetector::all_ranks_wait() const {
  Counts by_all = now_[0].announced;
  for (const Standing& standing : now_)
    for (std::size_t c = 0; c < by_all.size(); ++c)
      by_all[c] = std::min(by_all[c], standing.announced[c]);
  return std::ranges::none_of(now_, [&](const Standing& standing) {
    bool goes_on = standing.elsewhere != 0;
    for (std::size_t c = 0; c < by_all.size(); ++c)
      goes_on |= standing.awaited[c] > 0 && standing.awaited[c] <= by_all[c];
    return goes_on;
  });
}

void DeadlockDetector::fail() {
  const auto alike = [&](int a, int b) {
    const Standing &x = now_[std::size_t(a)], &y = now_[std::size_t(b)];
    return x.communicator == y.communicator && x.call.number == y.call.number;
  };
  const Odd odd = find_odd(ranks_, alike);
  const auto words = [&](int rank) { return format_call(now_[std::size_t(rank)].call); };
  const auto [low, high] = std::minmax(odd.reference, odd.rank);
  throw MismatchError(fmt::format("rank {} waits in {}, and rank {} in {} of another communicator",
                                  low,
                                  words(low),
                                  high,
                                  words(high)),
                      odd.is_minority
                          ? faulting_rank(odd.rank, now_[std::size_t(odd.rank)].call.step)
                          : FaultingRank{});
}

FaultingRank DeadlockDetector::faulting_rank(int rank, std::int64_t step) const {
  return {.rank = rank, .host = hosts_[std::size_t(rank)], .step = step};
}

}  // namespace lockstep

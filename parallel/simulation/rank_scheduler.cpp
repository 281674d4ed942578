// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/rank_scheduler.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::simulation {

thread_local RankScheduler* RankScheduler::running_ = nullptr;

RankScheduler::RankScheduler(int ranks, RankOrder order, std::uint64_t seed)
    : order_(order), random_(random_key(seed, "order of ranks"), 0), ranks_(std::size_t(ranks)) {}

RankScheduler::~RankScheduler() = default;

MonotonicClock::time_point RankScheduler::time_of_running() {
  if (running_ == nullptr) return std::chrono::steady_clock::now();  // a thread of its own
  const std::chrono::duration<double> seconds(running_->current_ < 0 ? 0 : running_->now());
  return MonotonicClock::time_point(std::chrono::duration_cast<MonotonicClock::duration>(seconds));
}

std::vector<RankEnd> RankScheduler::run(const std::function<void(int rank)>& body) {
  LOCKSTEP_ASSERT(running_ == nullptr);
  running_ = this;
  MonotonicClock::set_source(time_of_running);
  struct Restore {
    ~Restore() {
      running_ = nullptr;
      MonotonicClock::set_source(nullptr);
    }
  } restore;
  for (int r = 0; r < ranks(); ++r) {
    ranks_[std::size_t(r)].fiber = std::make_unique<Fiber>([this, r, &body] {
      try {
        body(r);
      } catch (const Unwound&) {
      } catch (...) {
        ranks_[std::size_t(r)].end.error = std::current_exception();
      }
    });
    add_ready(r);
  }
  run_ready();
  unwind_waiting();
  std::vector<RankEnd> ends;
  for (Rank& rank : ranks_) ends.push_back(std::move(rank.end));
  return ends;
}

void RankScheduler::add_ready(int rank) {
  if (order_ == RankOrder::random)
    any_.push_back(rank);
  else
    by_time_.push({ranks_[std::size_t(rank)].time, rank});
}

/// -1: none is ready.
int RankScheduler::take_ready() {
  if (order_ == RankOrder::by_time) {
    if (by_time_.empty()) return -1;
    const int rank = by_time_.top().rank;
    by_time_.pop();
    return rank;
  }
  if (any_.empty()) return -1;
  std::swap(any_[random_.below(std::uint32_t(any_.size()))], any_.back());
  const int rank = any_.back();
  any_.pop_back();
  return rank;
}

void RankScheduler::run_ready() {
  for (int rank = take_ready(); rank >= 0; rank = take_ready()) {
    current_ = rank;
    Rank& own = ranks_[std::size_t(rank)];
    own.fiber->resume();
    if (own.fiber->ended()) own.fiber.reset();
  }
  current_ = -1;
}

void RankScheduler::unwind_waiting() {
  unwinds_ = true;
  for (int r = 0; r < ranks(); ++r) {
    Rank& own = ranks_[std::size_t(r)];
    if (!own.fiber) continue;
    own.end.waits_for = own.waits_for;
    current_ = r;
    while (!own.fiber->ended()) own.fiber->resume();
    own.fiber.reset();
  }
  current_ = -1;
}

void RankScheduler::advance_to(double time) {
  double& own = ranks_[std::size_t(current_)].time;
  own = std::max(own, time);
}

bool RankScheduler::wait(const std::string& what) {
  if (!unwinds_) {
    Rank& own = ranks_[std::size_t(current_)];
    own.waits = true;
    own.waits_for = what;
    Fiber::suspend();
  }
  if (!unwinds_) return true;
  if (std::uncaught_exceptions() == 0) throw Unwound{};
  return false;
}

void RankScheduler::yield() {
  if (unwinds_) {
    (void)wait({});
    return;
  }
  if (by_time_.empty() && any_.empty()) return;
  if (order_ == RankOrder::by_time && by_time_.top().time > now()) return;
  add_ready(current_);
  Fiber::suspend();
}

void RankScheduler::wake(int rank) {
  Rank& own = ranks_[std::size_t(rank)];
  LOCKSTEP_ASSERT(own.waits);
  own.waits = false;
  own.waits_for.clear();
  add_ready(rank);
}

}  // namespace lockstep::simulation

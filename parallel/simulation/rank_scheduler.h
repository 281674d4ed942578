// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/host/monotonic_clock.h"
#include "parallel/simulation/fiber.h"

namespace lockstep::simulation {

/// Which of the ranks that could go on does.
enum class RankOrder : std::uint8_t {
  by_time,  ///< the one whose clock is the earliest, so that ranks meet in the order of time
  random,   ///< any, by a seed: what comes out must not depend on it
};

/// What became of a rank.
struct RankEnd {
  std::exception_ptr error;  ///< that ended it; null: none did
  std::string waits_for;     ///< where it would wait for ever; empty: it ended
};

/// Runs ranks as fibers of one thread, each with a clock of its own in seconds since the start. A
/// rank runs until it waits for others; its clock is moved by whoever knows what its work takes.
/// While run() is on its way, MonotonicClock tells the clock of the rank that runs.
class RankScheduler {
 public:
  RankScheduler(int ranks, RankOrder order, std::uint64_t seed);
  ~RankScheduler();
  RankScheduler(const RankScheduler&) = delete;
  RankScheduler& operator=(const RankScheduler&) = delete;

  int ranks() const { return int(ranks_.size()); }
  /// Runs body(rank) on every rank, until each has ended or no one can go on; those that wait then
  /// are unwound. What each came to, by rank.
  std::vector<RankEnd> run(const std::function<void(int rank)>& body);

  // For the rank that runs:
  int rank() const { return current_; }
  double now() const { return ranks_[std::size_t(current_)].time; }
  void advance(double seconds) { ranks_[std::size_t(current_)].time += seconds; }
  void advance_to(double time);
  /// Until wake(): true. False: a rank that waited for ever is unwound, and this is a destructor on
  /// its way. `what` is for people who look for whom a stuck rank waits.
  bool wait(const std::string& what);
  /// Lets those go first whose clock is earlier; with RankOrder::random anyone.
  void yield();

  /// Rank `rank`, which waits, can go on.
  void wake(int rank);
  /// Something was done that a rank may wait for.
  void note_progress() { polls_ = 0; }
  /// A rank has asked for what is not there. True: so often that no rank does anything else.
  bool polls_in_vain() { return ++polls_ > kMaxPolls * ranks_.size(); }

 private:
  struct Rank {
    std::unique_ptr<Fiber> fiber;
    double time = 0;
    bool waits = false;
    std::string waits_for;
    RankEnd end;
  };
  struct Ready {
    double time;
    int rank;
    bool operator>(const Ready& other) const {
      return time != other.time ? time > other.time : rank > other.rank;
    }
  };
  /// What a rank that is unwound meets. Of no kind that anyone else catches.
  struct Unwound {};

  static constexpr std::size_t kMaxPolls = 10'000;

  static MonotonicClock::time_point time_of_running();
  void add_ready(int rank);
  int take_ready();
  void run_ready();
  void unwind_waiting();

  RankOrder order_;
  RandomStream random_;
  std::vector<Rank> ranks_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> by_time_;
  std::vector<int> any_;  // ready ranks, with RankOrder::random
  int current_ = -1;
  bool unwinds_ = false;
  std::size_t polls_ = 0;  // since the last progress
  static thread_local RankScheduler* running_;
};

}  // namespace lockstep::simulation

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "core/exec/position.h"
#include "lockstep/error.h"
#include "parallel/comm/faulting_rank.h"

namespace lockstep {

/// A call of a collective, as ranks tell it to each other.
struct CallCard {
  std::uint64_t number = 0;  ///< of its communicator, from 1
  std::uint64_t sizes = 0;   ///< hash of what else has to be equal
  std::int64_t bytes = 0, step = 0;
  std::uint32_t kind = 0;  ///< CollectiveCall::Kind
  std::int32_t root = -1;
};
/// "all-gather of 64 bytes in step 3"
std::string format_call(const CallCard& call);

/// Ranks call different collectives. Where most of them agree, the faulting rank is one that does
/// not.
class MismatchError final : public CommError, public FaultingRank {
 public:
  explicit MismatchError(const std::string& message, FaultingRank faulting_rank = {});
};

/// The rank that does not do as the others, as far as can be inferred.
struct Odd {
  int rank = -1;             ///< -1: all do alike
  int reference = 0;         ///< the lowest that does otherwise and, where there is one, as most do
  bool is_minority = false;  ///< more than half of all ranks do as `reference`
};

/// `alike(a, b)`: whether two ranks do the same, an equivalence. Where there is no majority, `rank`
/// is the first that does not do as rank 0. Compares 4 N pairs: the only group that can be a
/// majority is found by votes that cancel out (Boyer and Moore 1991, "MJRTY").
template <typename Alike>
Odd find_odd(int ranks, Alike alike) {
  int candidate = 0, votes = 0, count = 0, lowest = ranks;
  for (int r = 0; r < ranks; ++r) {
    if (votes == 0) candidate = r;
    votes += alike(candidate, r) ? 1 : -1;
  }
  for (int r = 0; r < ranks; ++r)
    if (alike(candidate, r)) {
      ++count;
      lowest = std::min(lowest, r);
    }
  Odd odd;
  odd.is_minority = 2 * count > ranks;
  if (odd.is_minority) odd.reference = lowest;
  for (int r = 0; r < ranks && odd.rank < 0; ++r)
    if (!alike(odd.reference, r)) odd.rank = r;
  return odd;
}

/// The calls of one communicator that ranks have not compared yet, for the detector to poll.
class PendingCalls {
 public:
  /// Compares and starts what all have announced. Throws MismatchError.
  virtual void advance() = 0;

 protected:
  PendingCalls() = default;
  PendingCalls(const PendingCalls&) = default;
  PendingCalls& operator=(const PendingCalls&) = default;
  ~PendingCalls() = default;
};

/// What the checked communicators of a process have in common, on its training thread.
///
/// Whoever waits in one moves all of them along: a call begins on a rank only when that rank has
/// seen all others tell of it, and another may wait for that very call before it continues.
///
/// It finds what no communicator can find by itself: ranks that wait for each other in collectives
/// of different communicators, since one of them skipped a call and continued to another. A rank
/// that waits in a collective without anything moving for kStillSeconds posts how many calls it has
/// announced on every communicator, and which it waits for: a small all-gather, never waited for,
/// and which is complete once all ranks have posted. Two such rounds in a row in which no
/// rank has moved prove that all ranks stalled at one moment (when the first of them was
/// complete). Where no call that is waited for has been announced by all ranks either, so that
/// nothing can be on its way, no rank will ever continue, and every rank throws the same
/// MismatchError. A job that is slow, or waits for one rank that computes, is never accused: that
/// rank posts nothing.
class DeadlockDetector {
 public:
  static constexpr double kStillSeconds = 0.5, kRoundSeconds = 0.25;

  /// Collective over `world`, of which it makes its own channels. `position` must outlive it.
  DeadlockDetector(Communicator& world, const Position& position);
  /// Collective: completes the round that some rank may have begun. While an exception is in
  /// flight, or once ranks differ, what is on its way is left to leak instead.
  ~DeadlockDetector();
  DeadlockDetector(const DeadlockDetector&) = delete;
  DeadlockDetector& operator=(const DeadlockDetector&) = delete;

  /// The number of the next communicator, in the order of splits, which all ranks have in common.
  /// -1: it has not all ranks, or is one too many, and is not followed; waiting in it accuses
  /// no rank.
  int add(PendingCalls& calls, const Communicator& communicator);
  void remove(PendingCalls& calls);
  /// Moves all communicators along. Throws MismatchError, and from then on always the same.
  void advance();
  /// This rank has announced the next call of `communicator`.
  void announced(int communicator);
  /// A call was found to be announced by all.
  void moved();
  /// This rank looks after `call`, which others have not announced yet.
  void waits(int communicator, const CallCard& call);
  /// Ranks differ: no rank continues any more.
  bool broken() const { return broken_ != nullptr; }
  FaultingRank faulting_rank(int rank, std::int64_t step) const;

 private:
  static constexpr int kCommunicators = 64;
  using Clock = std::chrono::steady_clock;
  using Counts = std::array<std::uint64_t, kCommunicators>;  // a call's number; 0: none

  /// What a rank posts.
  struct Standing {
    std::uint64_t moves = 0;
    Counts announced{}, awaited{};
    CallCard call;  // one of those that it waits for
    std::int32_t communicator = -1, elsewhere = 0;
  };

  void post();
  void take_round();
  bool all_ranks_wait() const;
  [[noreturn]] void fail();

  const Position& position_;
  std::unique_ptr<Communicator> channel_, last_channel_;
  int rank_, ranks_;
  std::vector<std::string> hosts_;
  int added_ = 0;
  std::vector<PendingCalls*> pending_;

  std::uint64_t moves_ = 0, rounds_ = 0;
  Counts told_{}, awaited_{};
  std::int32_t elsewhere_ = 0, communicator_ = -1;
  CallCard call_;
  std::optional<Clock::time_point> still_since_;
  Clock::time_point posted_{};
  std::vector<Standing> now_, before_;  // [ranks]: the round under way, and the one before
  std::vector<CommBlock> blocks_;
  CommRequestPtr round_;
  std::exception_ptr broken_;
};

}  // namespace lockstep

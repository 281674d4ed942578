// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "parallel/comm/deadlock_detector.h"

namespace lockstep {

/// What a rank is about to do. Texts are literals.
struct CollectiveCall {
  enum class Kind : std::uint32_t {
    barrier,
    broadcast,
    gather,
    all_gather,
    all_gather_v,
    all_to_all,
    gather_blocks,
    all_reduce,
    all_reduce_max,
    split
  };
  Kind kind = Kind::barrier;
  std::int32_t root = -1;   ///< -1: it has none
  std::int64_t bytes = 0;   ///< equal on all ranks, but for all_to_all, which sends as many
  std::uint64_t sizes = 0;  ///< hash of what else has to be equal
  std::int64_t step = 0;    ///< that is being computed; tells a rank that skipped a call
  /// all_to_all: elements for and from each rank.
  std::span<const CommBlock> to = {}, from = {};
};

/// Compares the calls of all ranks of one communicator, in the order of the calls, without waiting
/// for anybody: each is a small all-gather on a communicator of its own.
class CollectiveValidator final : public PendingCalls {
 public:
  /// Collective; `channel` is for this alone. `detector` is that of all communicators of the
  /// process.
  CollectiveValidator(std::unique_ptr<Communicator> channel,
                      std::shared_ptr<DeadlockDetector> detector);

  /// Once ranks differ, in whichever communicator, calls that were not compared yet leak: no
  /// rank completes them any more.
  ~CollectiveValidator();
  CollectiveValidator(const CollectiveValidator&) = delete;
  CollectiveValidator& operator=(const CollectiveValidator&) = delete;

  /// Tells the others of `call`; `start` is called once all have announced the same, from test() or
  /// wait(). Returns its number, from 1.
  std::uint64_t tell(const CollectiveCall& call, std::function<void()> start);
  /// Compares and starts what all have announced. For the detector. Throws MismatchError.
  void advance() override;
  /// Polls all communicators of the detector for progress. True once call `number` has been
  /// compared and started. Throws MismatchError where ranks differ, or wait for each other in
  /// different communicators, and from then on always.
  bool test(std::uint64_t number);
  void wait(std::uint64_t number);

 private:
  struct Waiting {
    std::vector<std::uint32_t> cards;  // [ranks][words]
    std::vector<CommBlock> blocks;
    CommRequestPtr request;
    std::function<void()> start;
  };
  void compare(const Waiting& waiting) const;
  void compare_blocks(const Waiting& waiting) const;
  FaultingRank faulting_rank(int rank, std::int64_t step) const;

  std::unique_ptr<Communicator> channel_;
  std::shared_ptr<DeadlockDetector> detector_;
  int number_;  // in the detector
  std::size_t words_;
  std::uint64_t told_ = 0, started_ = 0;
  /// Calls started_ + 1 to told_; requests end before channel_. On the heap, to be left to leak
  /// there.
  std::unique_ptr<std::deque<Waiting>> waiting_ = std::make_unique<std::deque<Waiting>>();
};

}  // namespace lockstep

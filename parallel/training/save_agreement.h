// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/step/saved/saved_arrays.h"
#include "parallel/comm/stop_agreement.h"

namespace lockstep {

/// That this rank could not write its part of a save.
struct SaveFailure {
  std::int64_t save = 0;  ///< its number
  std::int64_t step = 0;
  bool in_memory = false;
  std::string error, hint;
};

/// What ranks tell each other of saves: who writes, when rank 0 wants one, what has failed. Rank 0
/// decides; the others learn of it where all of them are at one place (from_first()), or by the
/// StopAgreement's message, with which no rank waits.
class SaveAgreement final : public MessagePart {
 public:
  /// Collective. All ranks write where all see `folder`; otherwise rank 0 does, of which why_one()
  /// tells.
  SaveAgreement(Communicator& ranks, const std::string& folder);

  bool leads() const { return ranks_.rank() == 0; }
  bool alone() const { return ranks_.size() == 1; }
  int rank() const { return ranks_.rank(); }
  const std::string& why_one() const { return why_one_; }
  /// The part of the flat space that each rank copies and writes.
  std::vector<FlatRange> parts(const SavedArrays& saved) const;
  /// Who writes save `number`, where ranks have those parts.
  io::CheckpointWriters writers(std::span<const FlatRange> parts, std::int64_t number) const;
  /// The same where `members`, ascending, write one that is theirs alone: the first leads. This
  /// rank is one of them.
  io::CheckpointWriters writers(std::span<const FlatRange> parts,
                                std::int64_t number,
                                std::span<const int> members) const;

  /// Rank 0's value. Collective.
  template <typename Value>
  Value from_first(Value own) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    if (!alone()) ranks_.broadcast(&own, sizeof own, 0);
    return own;
  }
  /// Whether all ranks say yes. Collective.
  bool all(bool own);
  /// The ranks that say no. Collective.
  std::vector<int> ranks_without(bool own);

  /// On rank 0: whether the next message asks all ranks to meet for a save.
  void ask(bool wanted) { asks_ = wanted; }
  /// Whether a message has asked since the last call: true on all ranks at the same step.
  bool take_asked() { return std::exchange(asked_, false); }

  /// From now on a message tells of `failure`, and rank 0 calls `on_failure`.
  void add_failure(SaveFailure failure) { failures_.push_back(std::move(failure)); }
  /// Called on rank 0 with the rank that failed.
  void on_failure(std::function<void(int, const SaveFailure&)> action) {
    on_failure_ = std::move(action);
  }
  /// Tells rank 0 of all failures. Collective.
  void exchange_failures();

  int floats() const override { return 2; }
  void write(float* own) override;
  void read(const float* sums) override;

 private:
  std::string why_not_all(const std::string& folder);

  Communicator& ranks_;
  std::string why_one_;      // empty: all write
  std::uint64_t token_ = 0;  // of this process's saves
  bool asks_ = false, asked_ = false;
  std::vector<SaveFailure> failures_;  // of which rank 0 does not know
  std::function<void(int, const SaveFailure&)> on_failure_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/step/saved/snapshot.h"
#include "lockstep/rank_context.h"
#include "parallel/comm/stop_agreement.h"

namespace lockstep {

/// One tensor that must hold the same bits on every rank: a parameter or running statistic, or the
/// optimizer's state of a parameter that is trained. Without the padding after it.
struct ComparedTensor {
  std::size_t array = 0;  ///< in SavedArrays::arrays
  int parameter = 0;
  int bucket = 0;  ///< of the gradient exchange; -1: frozen
  /// Rounded where ranks have the weights of others so: Note [Weights in bf16].
  HashRange range;
};

/// All such tensors, array by array, in flat order.
std::vector<ComparedTensor> compared_tensors(const SavedArrays& saved);

/// Ranks by the value they hold.
struct RankGroups {
  /// Ranks with equal values, ascending; the largest group first, then by first rank.
  std::vector<std::vector<int>> groups;
  /// Whether the first group has the right values: independent faults do not produce equal bits, so
  /// two ranks that agree are enough, unless another group is as large.
  bool has_majority = false;
};
RankGroups group_ranks(std::span<const std::uint64_t> values);

/// Compares the replicas of all ranks. Every `every` steps each rank hashes its parameters, running
/// statistics and optimizer state, tensor by tensor (Note [Replica hash]). The StopAgreement's
/// message carries one number that combines the hashes, so that no rank waits for it. What arrives
/// is how many ranks have each of its 64 bits: the numbers are equal where those are all or none,
/// which float sums tell up to 2^24 ranks. Where they differ, the ranks gather the numbers of that
/// step and all throw the same DivergedError, with the step, the ranks in the minority, the
/// tensors, and the last step whose checkpoints can be trusted.
///
/// With a sharded optimizer nothing else than an owner holds its optimizer's state, and in bf16 the
/// lower halves of its weights; these are not compared.
///
/// Under Reduction::fast replicas are compared as well: MPI requires of its all-reduce that all
/// ranks receive identical results (MPI 3.1, section 5.9.6), in whatever order it adds.
class ReplicaCheck final : public MessagePart {
 public:
  /// `every` 0, or a single rank: compares nothing. The replica must outlive it.
  ReplicaCheck(RankContext& context, const SavedArrays& saved, std::int64_t every);

  /// `step` steps are done. Hashes where a comparison is due. True: a message has to be sent before
  /// the next step, with that hash, or so that read() compares the previous one.
  bool after_step(std::int64_t step);
  /// Whether after_step(step) hashes.
  bool hashed(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }
  /// Compares at once: at the start and at the end of a run. Collective.
  void check_now(std::int64_t step);

  int floats() const override { return kHashBits; }
  void write(float* own) override;
  /// Throws DivergedError.
  void read(const float* sums) override;

 private:
  static constexpr int kHashBits = 64;

  /// The replica at one moment.
  struct State {
    std::int64_t step = -1;             ///< steps done; -1: nothing was hashed
    std::vector<std::uint64_t> hashes;  ///< of tensors_
  };
  void hash(State& state, std::int64_t step);
  void take(State& state, bool equal);
  /// Collective, as places_that_differ().
  [[noreturn]] void report(const State& state);
  std::string places_that_differ(const State& state);

  RankContext& context_;
  SavedArrays saved_;
  std::int64_t every_;
  std::vector<ComparedTensor> tensors_;
  std::vector<HashRange> ranges_;  // of tensors_
  State hashed_, sent_;            // not yet in a message; in the message under way
  std::int64_t equal_step_ = -1;   // of the last comparison that found no difference
};

}  // namespace lockstep

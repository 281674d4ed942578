// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

/// Samples that a rank computes at once.
struct MicroBatch {
  std::int64_t first_sample = 0;  ///< position in the global batch
  std::int64_t samples = 0;
};

/// The micro-batches of one shard. A shard is a part of the global batch whose gradients are summed
/// first; sums of shards are added in one order, however many ranks there are.
struct ShardWork {
  int shard = 0;
  std::vector<MicroBatch> micro_batches;  ///< in the order of the sum
};

/// Half-open range of shard numbers.
struct ShardRange {
  int first = 0;
  int last = 0;
  bool empty() const { return first >= last; }
  bool operator==(const ShardRange&) const = default;
};

/// Ranges that never change, so that copies share them.
class ShardRanges {
 public:
  ShardRanges() = default;
  ShardRanges(std::vector<ShardRange> ranges)  // NOLINT(google-explicit-constructor)
      : ranges_(std::make_shared<const std::vector<ShardRange>>(std::move(ranges))) {}

  const ShardRange* begin() const { return ranges_ ? ranges_->data() : nullptr; }
  const ShardRange* end() const { return begin() + size(); }
  std::size_t size() const { return ranges_ ? ranges_->size() : 0; }
  bool empty() const { return size() == 0; }
  const ShardRange& operator[](std::size_t index) const { return (*ranges_)[index]; }
  /// Of copies at once.
  friend bool operator==(const ShardRanges& a, const ShardRanges& b) {
    return a.ranges_ == b.ranges_ || (a.ranges_ && b.ranges_ && *a.ranges_ == *b.ranges_);
  }

 private:
  std::shared_ptr<const std::vector<ShardRange>> ranges_;
};

/// Which micro-batches of a global batch a rank computes, in which order: Replica::schedule() makes
/// it, Replica::train_step() and a TrainingFeed take it.
struct Schedule {
  std::int64_t samples = 0;
  int shards = 0;  ///< of this batch, of all ranks
  /// How often ranks exchange gradients: once, after all their shards, or, with
  /// Sharding::gradients, each time that every rank has computed one.
  int turns = 1;
  /// [turns][ranks]: what each rank computes before each exchange. A shard in no range has no
  /// micro-batch.
  ShardRanges shards_of_rank;
  std::vector<ShardWork> work;  ///< of this rank
  /// Where several ranks form a batch-norm group: the micro-batches of the one that has most. The
  /// others compute zero samples in the missing rounds, to join the collectives.
  int rounds = 0;
  /// The most rounds that any rank runs, summed over turns, as ranks wait for each other after
  /// each: equal on all ranks.
  int most_rounds = 0;

  std::span<const ShardRange> owners(int turn) const {
    const std::size_t ranks = shards_of_rank.size() / std::size_t(turns);
    return std::span<const ShardRange>(shards_of_rank).subspan(std::size_t(turn) * ranks, ranks);
  }
};

}  // namespace lockstep

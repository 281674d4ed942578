// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/plan/flat_space.h"
#include "parallel/exchange/exchange_counts.h"
#include "parallel/exchange/tree_sum.h"

namespace lockstep {

/// The stretch that `buckets` cover, in order.
Bucket extent_of(std::span<const Bucket> buckets);

/// The sums of one rank's own shards: the stack of LocalTree. Its top is the gradient array itself,
/// what lies below are pending arrays of the same layout.
class PartialSums {
 public:
  /// `extent`: the stretch of `gradients` that is summed; of a rank that never has two shards,
  /// empty.
  PartialSums(Backend& backend, float* gradients, Bucket extent);

  /// Makes place for stacks of `depth` sums, top included. Throws OutOfMemory.
  void reserve(int depth);
  std::size_t bytes() const { return arrays_.size() * std::size_t(extent_.elems) * sizeof(float); }

  void begin(const LocalTree& tree);
  /// Pushes what `gradients` holds, for every shard but the last; frees `gradients`.
  void push();
  /// As push(), where a graph has done it.
  void was_replayed();
  ShardPlace place() const { return {pushed_, open_, tree_->merges.empty() ? 0 : next_merges()}; }
  void undo_capture(const ShardPlace& place) {
    pushed_ = place.finished;
    open_ = place.pending;
  }
  /// The merges of the last shard, within one bucket; the top ends in `gradients`.
  void push_last(Bucket bucket);
  /// Shards that push() still expects; the last one is not for it.
  int left() const { return int(tree_->merges.size()) - 1 - pushed_; }

  /// Where node `index` of LocalTree::nodes begins, as `gradients` does: add offsets to it.
  float* node(int index) const;

 private:
  int next_merges() const { return tree_->merges[std::size_t(pushed_)]; }
  /// result = the newest `merges` partial sums and what `gradients` holds, summed from the top.
  void merge(int merges, Bucket range, float* result);

  Backend& backend_;
  float* gradients_;
  Bucket extent_;
  std::vector<std::unique_ptr<DeviceBuffer>> arrays_;
  std::vector<float*> pending_;  // [arrays_], shifted so that offsets of `gradients` apply
  std::vector<TreeTerm> terms_;
  const LocalTree* tree_ = nullptr;
  int pushed_ = 0, open_ = 0;  // shards taken, pending arrays in use
};

}  // namespace lockstep

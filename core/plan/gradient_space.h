// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/plan/ownership.h"

namespace lockstep {

/// Note [Gradient window]. A bucket's gradients live from the first kernel that writes some of them
/// until the bucket has been exchanged. Where a rank computes one micro-batch between two
/// exchanges, and owners sum its buckets (Note [Sharded gradients] in turn_plans.h), no gradient
/// has to outlive that (Rajbhandari et al. 2020, ZeRO-2). So the array of gradients is not as large
/// as the flat space. It has two parts:
///
///   [what the rank owns, as in Ownership][the window]
///
/// Kernels write into the window, where sharded buckets take turns. Owners sum their chunk of a
/// bucket into the first part, where the optimizer finds it, laid out as its state is. Buckets that
/// are not sharded (small ones, metrics, statistics) belong to all ranks, are in the first part,
/// and stay.
///
/// Buckets that one tensor spans are a *run*, and lie one after another. Where the last of them is
/// too small to be sharded, it is written in the window as well, and summed into the first part; as
/// small buckets are exchanged after backward, its run keeps its place. Where runs lie in the
/// window is planned once, as tensors are in the arena: a step of that plan is a run being written,
/// and a run also lives while the next few are, so that its exchange overlaps with them. Nothing
/// can hide what the last run waits for, so that it may have the place of any run before it; the
/// embedding of a language model is often such a run, and larger than all others. Two runs that one
/// node writes have no byte in common.
///
/// Before the first kernel that writes into a run, a step waits until the buckets that lay there
/// have been exchanged (StepWork::reuse_gradients), and clears the padding of the run that holds
/// what lay there and that optimizers expect to be zero: they join tensors that lie closer than
/// kSegmentAlignment, and read no longer gap. Ranks exchange buckets in one order, and a
/// rank waits for none that another cannot have started yet: no two ranks wait for each other.

/// Elements of the array of gradients.
struct GradientStretch {
  std::int64_t offset = 0;
  std::int64_t elems = 0;
};

/// A run, buckets [first, end), that lies where others lie at another time.
struct GradientReuse {
  int first = 0, end = 0;
  std::vector<int> after;                ///< buckets that must have been exchanged
  std::vector<GradientStretch> padding;  ///< of the run, what optimizers can read
};

/// Where gradients lie. Equal on all ranks.
class GradientSpace {
 public:
  /// As the flat space. `why_whole`: why they are not divided, where that was asked for.
  explicit GradientSpace(const FlatSpace& space = {}, std::string why_whole = {});
  /// Divided: Note [Gradient window]. Runs live while `in_flight` - 1 others are written after
  /// them. `graph`: of training. Where that saves nothing, or the layout does not suit, as the flat
  /// space, and why_whole() says so.
  GradientSpace(const FlatSpace& space, const Graph& graph, int in_flight);

  bool divided() const { return divided_; }
  /// Empty: they are divided, or are not to be.
  const std::string& why_whole() const { return why_whole_; }
  std::int64_t elems() const { return elems_; }
  /// Of those, the window's.
  std::int64_t window_elems() const { return window_elems_; }

  /// Where kernels write the parameter's gradient; it is not frozen.
  std::int64_t place_of(const Segment& segment) const;
  /// The same of a bucket.
  std::int64_t place_of(int bucket) const { return buckets_[std::size_t(bucket)].offset; }
  /// The flat space's, with offsets in this array.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// What is to be added to offsets of the flat space to find the sums of what the rank owns; it
  /// does not begin with what is frozen.
  std::int64_t shift_of(const OwnedStretch& stretch) const;
  /// [buckets]: where the rank's sum ends: of its chunk; of all of a bucket that is not sharded.
  /// Null, or empty: in its place in the bucket.
  std::vector<float*> summed(float* gradients) const;

  const std::vector<GradientReuse>& reuses() const { return reuses_; }
  /// Whether a training program for the same space writes gradients in an order that reuses()
  /// suit.
  bool suits(const Graph& graph, const FlatSpace& space) const;
  /// For each node of a training program that they suit, which of reuses() come before it.
  std::vector<std::vector<int>> reuses_before(const Graph& graph, const FlatSpace& space) const;

 private:
  /// Nothing where they do not suit.
  std::optional<std::vector<std::vector<int>>> find_reuses(const Graph& graph,
                                                           const FlatSpace& space) const;
  void keep_whole(const FlatSpace& space, std::string why);
  void place_runs(const FlatSpace& space, const Graph& graph, int in_flight);

  bool divided_ = false;
  std::string why_whole_;
  std::int64_t elems_ = 0, window_elems_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<std::int64_t> shift_;   // [buckets]
  std::vector<std::int64_t> summed_;  // [buckets]; -1: in its place
  std::vector<GradientReuse> reuses_;
};

}  // namespace lockstep

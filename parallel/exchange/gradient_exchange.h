// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/exec/position.h"
#include "core/plan/flat_space.h"
#include "lockstep/schedule.h"
#include "lockstep/train_options.h"
#include "parallel/exchange/exchange_communicators.h"
#include "parallel/exchange/exchange_counts.h"

namespace lockstep {

/// Sums the flat gradient space over the shards of all ranks.
///
/// Note [Reduction tree]. T(lo, hi) over shards lo..hi-1 is the shard itself where hi - lo = 1,
/// otherwise T(lo, mid) + T(mid, hi) with mid = lo + the largest power of two below hi - lo. Every
/// element is summed in that order, whoever computed the shards, so that the bits depend on the
/// number of shards alone. (Addition of two numbers commutes, so sides do not matter.)
///
/// A rank's shards are finished in order. Their sums climb the tree as far as they can: one pending
/// array for each open level, the newest sum in `gradients` itself. What remains after the last
/// shard is a few aligned subtrees (one, in `gradients`, where the rank owns an aligned block).
/// Across ranks, per bucket: all-to-all the chunks of those subtrees, finish the tree on the own
/// chunk, all-gather the chunks. A small bucket (at most SmallBucketAllGather::kSmallBucketBytes)
/// is instead gathered whole and every rank finishes the tree itself: one collective instead of
/// two, the same bits. Where there are several hosts with equally many ranks, at least two, chunks
/// are summed on the host first, then across hosts: see Note [Two levels] in
/// hierarchical_reduction.h. Which chunk a rank sums, and so owns of a sharded bucket, depends on
/// that: owned_index().
///
/// Per step:
///   begin_step(schedule)
///   for each own shard but the last: compute into `gradients`; finish_shard()
///   last shard, during its last backward: start_bucket(b) as soon as bucket b is complete,
///     progress() now and then
///   (a rank without shards calls start_bucket for every bucket at once)
///   finish_bucket(b) for each b: blocks until every rank has the sum of bucket b, in its place in
///     `gradients`, of a sharded bucket the chunk that the rank owns (Note [Sharded optimizer]);
///     where owners' sums have places of their own, there instead, and what is in the bucket is of
///     no use (Note [Gradient window]); a bucket may be finished while others have not started;
///     where collectives are stream-ordered, the device waits for it instead of the host
///
/// Where shards are dealt (Note [Sharded gradients] in turn_plans.h) that is the last turn; in
/// those before, each rank's shard is its last one, finish_bucket() leaves no sum but in what is
/// kept of the turns, and next_turn() follows.
class GradientExchange {
 public:
  /// `buckets` cover `gradients` in order; where owners' sums have places of their own, `summed`
  /// (GradientSpace::summed()), they may have each other's place at different times. Reserves every
  /// buffer it will need for up to `max_shards` shards, so that none moves later. `dealt_cluster`:
  /// the cluster of schedules whose shards are dealt, with Reduction::reproducible and several
  /// ranks; 0: shards are consecutive. `communicators`: of an exchange over the same `communicator`
  /// with the same `reduction`, which is never at work when this one is; null: it makes its own.
  /// Throws OutOfMemory.
  GradientExchange(Backend& backend,
                   Communicator& communicator,
                   Reduction reduction,
                   std::vector<Bucket> buckets,
                   float* gradients,
                   int max_shards,
                   int dealt_cluster = 0,
                   std::vector<float*> summed = {},
                   std::shared_ptr<const ExchangeCommunicators> communicators = {});
  ~GradientExchange();

  /// From now on `position` says which bucket finish_bucket() waits for.
  void set_position(Position* position);

  void begin_step(const Schedule& schedule);
  /// Adds the shard that `gradients` holds to the partial sums; `gradients` is free again.
  void finish_shard();
  void start_bucket(int bucket);
  /// After finish_bucket() of every bucket, but in the last turn.
  void next_turn();

  /// Whether the device alone does all of it, in stream order, so that it can be captured: one
  /// rank, or a communicator of that kind.
  bool in_stream_order() const;
  /// How far the step's shards are.
  ShardPlace place() const;
  /// A graph has done what finish_shard() does, or all that is left of the turn, in which
  /// this rank sends `bytes`.
  void shard_was_replayed();
  void buckets_were_replayed(const SentBytes& bytes);
  /// What was asked for since `place` was not done, and what was sent() then is all that has been.
  /// No bucket had been started, but where in_stream_order().
  void undo_capture(const ShardPlace& place, const SentBytes& sent);

  /// Moves started exchanges along; cheap, never blocks.
  void progress();
  /// Whether progress() has anything to do.
  bool in_flight() const;
  void finish_bucket(int bucket);
  /// Since start_bucket().
  bool is_finished(int bucket) const;

  /// What gathers use on two levels, for gathers of the caller's between finish_bucket() of the
  /// last bucket and start_bucket() of the next step; null: there is one level.
  HostCommunicators gather_communicators();

  const std::shared_ptr<const ExchangeCommunicators>& communicators() const;
  int bucket_count() const;
  std::size_t partial_sum_bytes() const;
  std::size_t communication_bytes() const;
  /// Since construction.
  SentBytes sent() const;
  std::uint64_t bytes_sent() const { return sent().all; }
  std::uint64_t network_bytes_sent() const { return sent().network; }
  /// Seconds blocked in finish_bucket since construction: the exposed communication, but where
  /// collectives are stream-ordered.
  double exposed_seconds() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

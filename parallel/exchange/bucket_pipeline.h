// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/plan/flat_space.h"
#include "lockstep/train_options.h"
#include "parallel/exchange/exchange_counts.h"
#include "parallel/exchange/exchange_level.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/partial_sums.h"

namespace lockstep {

/// The buckets that are too large to be gathered whole. Each goes through stages, one for each
/// collective: down the levels of the plan
///   all-to-all of pieces -> own piece summed in tree order
/// and back up
///   all-gather of pieces,
/// or, with Reduction::fast, through one all-reduce. One level of all ranks, or two: on the host,
/// then across hosts: one after the other in the slot, as the sums of the host are sent from where
/// it has received. Buckets whose optimizer is sharded end with the sum of the own piece.
///
/// Every stage takes the buckets in the order of start(), as all ranks must start the collectives
/// of a communicator in one order. Only the number of buckets between the first all-to-all and the
/// last sum is limited (DeviceTraits::buckets_in_flight), since these need receive buffers. Where
/// what is received comes to them only then (Communicator::receives_apart()), on one level, one
/// more is on its way: it is copied to the host while the network has the one before.
class BucketPipeline {
 public:
  /// `ranks_per_host`: the communicator's, or all ranks where the exchange has one level.
  /// `communicator` must outlive it.
  BucketPipeline(Backend& backend,
                 Communicator& communicator,
                 int ranks_per_host,
                 Reduction reduction,
                 PartialSums& sums,
                 float* gradients,
                 int bucket_count);

  /// Elements that one bucket in flight needs on this rank.
  std::int64_t slot_elems(const ExchangeSize& size, std::int64_t bucket_elems) const;
  /// Receive memory for at least one bucket of any plan. Throws OutOfMemory.
  void reserve(std::int64_t elems);
  std::size_t bytes() const { return pool_ ? pool_->bytes() : 0; }

  /// `largest`: elements of the largest bucket that start() will get.
  void begin(const ExchangePlan& plan, std::int64_t largest);
  /// `computed`: where given, what is to happen on the device before the bucket is read; as it was
  /// recorded last.
  void start(Bucket bucket, const DeviceEvent* computed = nullptr);
  /// Nothing that was started is done, nor will be.
  void drop_started();
  /// Moves everything along that can move. Never blocks.
  void progress();
  bool idle() const { return completed() == started_; }
  /// Whether bucket number `index`, counted by start(), is complete.
  bool complete(int index) const { return index < completed(); }
  int started() const { return started_; }
  SentBytes sent() const;

 private:
  struct InFlight {
    Bucket bucket;
    const DeviceEvent* computed = nullptr;
    std::vector<CommRequestPtr> requests;  // of its stage: one, or one for each layer of nodes
  };

  /// Of a level, for one bucket.
  struct LevelMemory {
    std::span<float* const> own;  // where nodes begin
    float* receive = nullptr;
  };

  int completed() const { return entered_[std::size_t(stages_)]; }
  bool slot_is_free() const;
  bool try_stage(int stage);
  LevelMemory memory_of(std::size_t level, Bucket bucket, float* receive);
  void enter(int stage, InFlight& entry, float* receive);
  CommRequestPtr start_all_reduce(Bucket bucket);

  Backend& backend_;
  Reduction reduction_;
  PartialSums& sums_;
  float* gradients_;
  int rank_, ranks_;
  std::vector<ExchangeLevel> levels_;  // all ranks; where there may be two: host, across hosts
  std::unique_ptr<DeviceBuffer> pool_;
  const ExchangePlan* plan_ = nullptr;
  std::span<ExchangeLevel> way_;   // levels of the plan
  std::vector<float*> own_nodes_;  // [own nodes of the plan], of the bucket asked for last
  std::int64_t slot_size_ = 0;
  bool receives_apart_;
  int max_slots_, slots_ = 1;
  int ahead_ = 0;  // buckets under way beyond the slots
  int stages_ = 0;
  int sums_done_ = 0;  // the stage that a bucket enters after its last sum
  int started_ = 0;
  // [stage]: buckets, in order of start(), that have entered it; those that have entered number
  // stages_ are complete.
  std::vector<int> entered_;
  std::vector<InFlight> in_flight_;  // Last: requests end before what they use.
};

}  // namespace lockstep

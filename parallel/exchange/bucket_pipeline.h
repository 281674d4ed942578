// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
/// it has received. Buckets whose optimizer is sharded end with the sum of the own piece, and all
/// of a turn after which owners keep the sums.
///
/// Every stage takes the buckets in the order of start(), as all ranks must start the collectives
/// of a communicator in one order. Only the number of buckets between the first all-to-all and the
/// last sum is limited (DeviceTraits::buckets_in_flight), since these need receive buffers. Where
/// what is received comes to them only then (Communicator::receives_apart()), on one level, one
/// more is on its way: it is copied to the host while the network has the one before.
///
/// Note [Two streams]. Where collectives are in stream order and there are two levels, what crosses
/// the network has a stream of its own: N is DeviceStream::network, C the stream in use. Bucket k
/// goes
///   C: all-to-all on the host, sum  N: all-to-all across hosts, sum, all-gather  C: all-gather
/// and the last of these is asked for after the first of bucket k + 1. So C and N may work at
/// once, on different buckets, as far as NCCL lets them: with NCCL_LAUNCH_ORDER_IMPLICIT it starts
/// kernels in the order of the host, and in graphs with drivers before 12.9 one after another. Each
/// level's communicator has one order of collectives on all ranks, which the order of start()
/// decides alone. A bucket that takes over a slot begins after the sum across hosts of the one that
/// had it.
class BucketPipeline {
 public:
  /// `all`: every rank. It and `communicators` must outlive it.
  BucketPipeline(Backend& backend,
                 const Communicator& all,
                 const ExchangeCommunicators& communicators,
                 Reduction reduction,
                 PartialSums& sums,
                 const KeptSums& kept,
                 float* gradients,
                 int bucket_count);

  /// Elements that one bucket in flight needs on this rank.
  std::int64_t slot_elems(const ExchangeSize& size, std::int64_t bucket_elems) const;
  /// Receive memory for at least one bucket of any plan: allocate() makes room for the most that
  /// was asked for.
  void reserve(std::int64_t elems) { reserved_ = std::max(reserved_, elems); }
  /// Throws OutOfMemory.
  void allocate();
  std::size_t bytes() const { return pool_ ? pool_->bytes() : 0; }

  /// `largest`: elements of the largest bucket that start() will get.
  void begin(const ExchangePlan& plan, std::int64_t largest);
  /// `computed`: where given, what is to happen on the device before the bucket is read; as it was
  /// recorded last.
  void start(Bucket bucket, const DeviceEvent* computed = nullptr);
  /// Asks for the last stages that wait for a next bucket, where there are two streams.
  void flush();
  /// Nothing that was started is done, nor will be.
  void drop_started();
  /// Moves everything along that can move. Never blocks.
  void progress();
  bool idle() const { return completed() == started_; }
  /// Whether bucket number `index`, counted by start(), is complete.
  bool complete(int index) const { return index < completed(); }
  int started() const { return started_; }
  /// What brings a bucket's pieces together on two levels; null: there is one.
  HostCommunicators gather_communicators();
  SentBytes sent() const;

 private:
  struct InFlight {
    Bucket bucket;
    const DeviceEvent* computed = nullptr;
    std::vector<CommRequestPtr> requests;  // of its stage: one, or one for each layer of nodes
    // On two streams: what the next stage waits for, and the sum that frees the slot.
    std::unique_ptr<DeviceEvent> on_host = nullptr, summed = nullptr, gathered = nullptr;
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
  /// Whether bucket number `index` waits for the next one before its last stage.
  bool is_held_back(int index, int stage) const;
  void enter(int stage, int index, float* receive);
  void sum_level(int stage, Bucket bucket, float* receive);
  void start_level(int stage, InFlight& entry, float* receive);
  CommRequestPtr start_all_reduce(Bucket bucket);

  Backend& backend_;
  Reduction reduction_;
  PartialSums& sums_;
  const KeptSums& kept_;
  float* gradients_;
  int rank_, ranks_;
  std::vector<ExchangeLevel> levels_;  // all ranks; or two: host, across hosts
  std::int64_t reserved_ = 0;          // elements
  std::unique_ptr<DeviceBuffer> pool_;
  const ExchangePlan* plan_ = nullptr;
  std::vector<float*> own_nodes_;  // [own nodes of the plan], of the bucket asked for last
  std::int64_t slot_size_ = 0;
  bool receives_apart_, in_stream_order_;
  bool two_streams_ = false, flushes_ = false;
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

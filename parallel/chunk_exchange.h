// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "parallel/exchange_plan.h"
#include "parallel/pending_sums.h"

namespace lockstep {

/// The buckets that are too large to be gathered whole. Each goes through
///   all-to-all of chunks -> own chunk summed in tree order -> all-gather of chunks,
/// or, with Reduction::fast, through one all-reduce.
///
/// Ranks reach these points at different times, yet each must start the collectives of a
/// communicator in one order: so both stages have a communicator of their own, unless collectives
/// stand in stream order, and both take the buckets in the order of start(). Only the number of
/// buckets between all-to-all and sum is limited (kSlots), since these need receive buffers.
class ChunkExchange {
 public:
  static constexpr int kSlots = 4;

  /// `communicator` must outlive it.
  ChunkExchange(Backend& backend,
                Communicator& communicator,
                Reduction reduction,
                PendingSums& sums,
                float* gradients,
                int bucket_count);

  /// Elements that one bucket in flight needs on this rank.
  std::int64_t slot_elems(const ExchangeSize& size, std::int64_t bucket_elems) const;
  /// Receive memory for at least one bucket of any plan. Throws OutOfMemory.
  void reserve(std::int64_t elems);
  std::size_t bytes() const { return pool_bytes() + (zeros_ ? zeros_->bytes() : 0); }

  /// `largest`: elements of the largest bucket that start() will get.
  void begin(const ExchangePlan& plan, std::int64_t largest);
  void start(Bucket bucket);
  /// Moves everything along that can move. Never blocks.
  void progress();
  bool idle() const { return gathered_ == started_; }
  /// Whether bucket number `index`, counted by start(), is complete.
  bool complete(int index) const { return index < gathered_; }
  int started() const { return started_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct InFlight {
    Bucket bucket;
    std::vector<CommRequestPtr> all_to_all;  // one for each layer of nodes
    CommRequestPtr gather;
  };

  std::size_t pool_bytes() const { return pool_ ? pool_->bytes() : 0; }
  void start_all_reduce(InFlight& entry);
  void start_all_to_all(InFlight& entry, int slot);
  void sum_chunk(const InFlight& entry, int slot);
  void start_all_gather(InFlight& entry);
  bool try_exchange();
  bool try_sum();
  bool try_gather();

  Backend& backend_;
  Reduction reduction_;
  PendingSums& sums_;
  float* gradients_;
  int rank_, ranks_;
  std::unique_ptr<Communicator> own_comms_[2];
  Communicator* exchange_comm_;
  Communicator* gather_comm_;
  std::unique_ptr<DeviceBuffer> pool_, zeros_;  // zeros_: for ranks without shards, fast only
  const ExchangePlan* plan_ = nullptr;
  std::int64_t slot_size_ = 0;
  int slots_ = 1;
  std::vector<CommBlock> to_, from_;  // [ranks]
  std::vector<float*> operands_;      // [nodes of the plan]
  std::vector<TreeTerm> terms_;       // [nodes of the plan]
  std::uint64_t bytes_sent_ = 0;
  // Of the buckets in order of start(): those before gathered_ are complete, before summed_ are
  // being gathered, before exchanged_ being exchanged, before started_ waiting for a slot.
  int started_ = 0, exchanged_ = 0, summed_ = 0, gathered_ = 0;
  std::vector<InFlight> in_flight_;  // Last: requests end before what they use.
};

}  // namespace lockstep

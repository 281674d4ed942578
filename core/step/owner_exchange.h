// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/plan/ownership.h"
#include "core/plan/weight_message.h"

namespace lockstep {

/// What the owners of a sharded optimizer tell each other: Note [Sharded optimizer]. Collective;
/// blocks until complete, but where the communicator is in stream order.
class OwnerExchange {
 public:
  /// `gradients`: the flat array, in which collect() receives: nothing in it but metrics and sums
  /// of statistics is read between steps, and those are not sharded. All must outlive it. Throws
  /// OutOfMemory.
  OwnerExchange(Backend& backend,
                Communicator& communicator,
                const FlatSpace& space,
                float* gradients);

  const Ownership& ownership() const { return ownership_; }
  const FlatSpace& space() const { return space_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Every rank has in `weights` ([FlatSpace::elems], laid out like it) the chunks that the others
  /// own, in fp32.
  void gather_weights(float* weights);
  /// The same after an update, but as kernels read them: Note [Weights in bf16].
  void share_weights(float* weights);
  /// Whether that leaves ranks without the fp32 values of others.
  bool rounds_weights() const { return !messages_.empty(); }
  /// Connects ranks for both, before step 1: of the gradients, which hold nothing yet. Not counted.
  void warm_up();
  /// values: [sum of counts] in device memory, in rank order; counts: [ranks]. Every rank has
  /// written its own.
  void all_gather(double* values, std::span<const std::int64_t> counts);
  /// `host` ([wanted[rank()].elems]) has the range wanted[rank()] of the flat space, of what the
  /// ranks own, each in `owned` ([Ownership::elems()], in device memory). wanted: [ranks], the same
  /// on all. Between steps: overwrites gradients.
  void collect(const float* owned, std::span<const FlatRange> wanted, float* host);

  /// What this rank has sent since construction.
  SentBytes sent() const {
    const auto others = std::uint64_t(ranks_ - communicator_.ranks_per_node());
    return {bytes_sent_, bytes_sent_ / std::uint64_t(ranks_ - 1) * others};
  }
  /// What was asked for since it was `sent` was not done.
  void undo(const SentBytes& sent);
  /// Whether an exception has left messages under way, which peers still write.
  bool in_flight() const;
  /// Of messages.
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  struct Message {
    WeightMessage plan;
    std::vector<WeightPiece> received;  // those of all other ranks
  };
  /// A message under way, and where it lies.
  struct InFlight {
    const Message* message = nullptr;
    std::uint16_t* memory = nullptr;
    CommRequestPtr request;
  };

  void reserve_messages();
  void start_gather(const Bucket& bucket, float* weights);
  void start_message(const Message& message, const float* weights, InFlight& entry);
  void finish_message(InFlight& entry, float* weights);
  void finish();

  Backend& backend_;
  Communicator& communicator_;
  const FlatSpace& space_;
  float* gradients_;
  int rank_, ranks_;
  Ownership ownership_;
  std::vector<Bucket> sharded_;
  std::vector<Message> messages_;         // of those that have bf16, in their order
  std::vector<CommBlock> blocks_, from_;  // [ranks]
  std::unique_ptr<DeviceBuffer> memory_;  // of messages under way; null: there are none
  std::vector<CommRequestPtr> requests_;
  std::vector<InFlight> in_flight_;  // Last: requests end before what they use.
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace lockstep

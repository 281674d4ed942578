// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"
#include "core/plan/gradient_space.h"
#include "core/plan/ownership.h"
#include "core/plan/weight_message.h"

namespace lockstep {

/// What the owners of a sharded optimizer tell each other: Note [Sharded optimizer]. Collective;
/// blocks until complete, but where the communicator is in stream order.
///
/// On two levels weights go across hosts, then on the host, several buckets at once. Where
/// collectives are in stream order, what crosses the network is asked for on DeviceStream::network,
/// so that it may run concurrently with what the bucket before exchanges on its host.
class OwnerExchange {
 public:
  /// `communicator`: of all ranks; `hosts`: where `space` has two levels, for gathers of weights
  /// while nothing else uses them. `gradients`, where `places` says: the array in which collect()
  /// receives: nothing in it but metrics and sums of statistics is read between steps, and those
  /// are not sharded. All must outlive it. Throws OutOfMemory.
  OwnerExchange(Backend& backend,
                Communicator& communicator,
                const HostCommunicators& hosts,
                const FlatSpace& space,
                float* gradients,
                const GradientSpace& places);

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
  /// Connects ranks for both, before `weights` has initial weights: gathers what is there, which
  /// makes ranks alike. Not counted.
  void warm_up(float* weights);
  /// values: [sum of counts] in device memory, in rank order; counts: [ranks]. Every rank has
  /// written its own.
  void all_gather(double* values, std::span<const std::int64_t> counts);
  /// `host` ([wanted[rank()].elems]) has the range wanted[rank()] of the flat space, of what the
  /// ranks own, each in `owned` ([Ownership::elems()], in device memory). wanted: [ranks], the same
  /// on all. Between steps: overwrites gradients.
  void collect(const float* owned, std::span<const FlatRange> wanted, float* host);

  /// What this rank has sent since construction.
  const SentBytes& sent() const { return sent_; }
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
  /// Ranks that gather what they have of a bucket: member m the chunks from
  /// first_chunk + m * chunks on.
  struct Level {
    Communicator* communicator = nullptr;
    int first_chunk = 0, chunks = 1;
    bool across_hosts = false;
  };
  /// The weights of a bucket, on their way up the levels.
  struct Gather {
    const Bucket* bucket = nullptr;
    const Message* message = nullptr;  // null: fp32, in their place
    std::uint16_t* memory = nullptr;   // of the message
    CommRequestPtr request = nullptr;  // of the level that it is on
    // On two streams: the device has what is sent; it has come from other hosts.
    std::unique_ptr<DeviceEvent> ready = nullptr, arrived = nullptr;
  };

  void make_levels(const HostCommunicators& hosts);
  void reserve_messages();
  void gather_buckets(float* weights, bool rounded);
  void start_level(Gather& gather, const Level& level, float* weights);
  void start_first(Gather& gather, float* weights);
  void start_last(Gather& gather, float* weights);
  void climb(float* weights);
  void complete(std::size_t count, float* weights);
  CommBlock chunks(const Gather& gather, int first, int count) const;
  void count_sent(std::int64_t bytes, int others, int on_other_hosts);

  Backend& backend_;
  Communicator& communicator_;
  const FlatSpace& space_;
  float* gradients_;
  int rank_, ranks_;
  Ownership ownership_;
  std::vector<Bucket> sharded_;
  std::vector<std::int64_t> places_;  // of those, in gradients_
  std::vector<Message> messages_;     // of those that have bf16, in their order
  std::vector<Level> levels_;         // all ranks; or across hosts, then on the host
  bool two_streams_ = false;
  std::vector<CommBlock> blocks_, from_;  // [ranks]
  std::unique_ptr<DeviceBuffer> memory_;  // of messages under way; null: there are none
  std::int64_t message_units_ = 0;        // of the largest
  std::size_t slots_ = 0;                 // messages that memory_ has room for
  SentBytes sent_;
  // In the order of sharded_: how many have started, are on their last level, are complete.
  std::size_t started_ = 0, climbed_ = 0, completed_ = 0;
  std::size_t messages_done_ = 0;
  std::vector<Gather> gathers_;  // [sharded_]. Last: requests end before what they use.
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// Pinned memory that grows.
class PinnedStage {
 public:
  explicit PinnedStage(Backend& backend) : backend_(backend) {}
  std::byte* reserve(std::size_t bytes);
  float* data() { return memory_ ? memory_->as<float>() : nullptr; }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> memory_;
};

class StagedRequest;
using StagedRequestPool = std::vector<std::unique_ptr<StagedRequest>>;

/// Collectives of one communicator that were asked for and not started, as the device has not yet
/// computed or copied what they send. They start in the order in which they were asked for, which
/// is the same on all ranks, however late the device of one is.
class StagedQueue {
 public:
  void add(StagedRequest& request) { waiting_.push_back(&request); }
  /// Starts the first ones whose data is there. Never blocks.
  void start_ready();
  /// Waits for the device, and starts all up to `last`, or all.
  void start_all(const StagedRequest* last = nullptr);
  void remove(const StagedRequest& request);

 private:
  std::vector<StagedRequest*> waiting_;
};

/// A started collective on host copies, or on memory of a device that the network reaches. What it
/// sends is copied on DeviceStream::copies_out, after what was asked of the stream in use; once the
/// device has done that, the collective starts; what it received goes to the device on the stream
/// that is in use when test() or wait() finds it complete. So copies of one bucket run while the
/// network has the one before.
///
/// Blocks next to each other on the device are one copy: a bucket's pieces, of which a rank sends
/// all but its own, are one or two; those that it gathers one.
class StagedRequest final : public CommRequest {
 public:
  /// `host` and what else it is given outlive it.
  StagedRequest(Backend& backend, Communicator& host, StagedQueue& queue, StagedRequestPool& pool);

  bool test() override;
  void wait() override;
  void release() override;

  /// As in Communicator, of memory of the device. `reached`: the network reads and writes it.
  void ask_all_to_all(const float* send,
                      std::span<const CommBlock> to,
                      float* recv,
                      std::span<const CommBlock> from,
                      bool reached);
  void ask_all_gather(float* data, std::span<const CommBlock> blocks, bool reached);
  void ask_all_reduce(float* data, std::int64_t elems);

  /// Whether no copy to the device reads its stage any more.
  bool is_free() const { return !delivered_ || taken_->done(); }
  void wait_until_free();

 private:
  friend class StagedQueue;
  enum class Kind : std::uint8_t { all_to_all, all_gather, all_reduce };

  /// Before anything of it is asked of the device: an exception from here on leaks the stages, see
  /// release().
  void begin(Kind kind);
  /// The network reads and writes the device's own memory.
  void reach_device();
  /// `blocks` of `device` to `packed` ones of `host`.
  void copy_out(const float* device,
                std::span<const CommBlock> blocks,
                float* host,
                std::span<const CommBlock> packed);
  void expect(float* device, std::span<const CommBlock> blocks);
  void start();
  void deliver();

  Backend& backend_;
  Communicator& host_;
  StagedQueue& queue_;
  StagedRequestPool& pool_;
  PinnedStage send_, receive_;
  // Everything asked of the stream in use; what is sent is there; what came has left the stage.
  std::unique_ptr<DeviceEvent> asked_, arrived_, taken_;
  Kind kind_ = Kind::all_to_all;
  const float* from_ = nullptr;  // what the network reads
  float* into_ = nullptr;        // and writes
  std::vector<CommBlock> to_blocks_, from_blocks_;
  float* device_ = nullptr;  // where received blocks go; null: they are there
  std::vector<CommBlock> device_blocks_;
  CommRequestPtr inner_;
  int exceptions_ = 0;  // in flight when it was asked for
  bool pending_ = false, started_ = false;
  bool delivered_ = false;  // copies to the device may still read the stage
};

}  // namespace lockstep

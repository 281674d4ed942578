// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

/// A started collective. Buffers belong to the communicator until wait() returns or test() says so.
class CommRequest {
 public:
  virtual ~CommRequest() = default;
  /// Drives progress; true once complete. Never blocks.
  virtual bool test() = 0;
  virtual void wait() = 0;
  /// What its owner does instead of deleting it: communicators recycle requests, so that steady
  /// state allocates none.
  virtual void release() { delete this; }
};

struct ReleaseRequest {
  void operator()(CommRequest* request) const { request->release(); }
};
/// Must not outlive the communicator that started it.
using CommRequestPtr = std::unique_ptr<CommRequest, ReleaseRequest>;

/// Elements that one rank sends to or receives from another.
struct CommBlock {
  std::int64_t offset = 0;  ///< elements
  std::int64_t elems = 0;
};

/// What a rank has sent to others. `network`: to those on other hosts, as far as
/// Communicator::ranks_per_node() and the library, where that sums, let one know.
struct SentBytes {
  std::uint64_t all = 0, network = 0;
  SentBytes& operator+=(const SentBytes& other) {
    all += other.all;
    network += other.network;
    return *this;
  }
  SentBytes operator+(const SentBytes& other) const {
    return {all + other.all, network + other.network};
  }
  SentBytes operator-(const SentBytes& other) const {
    return {all - other.all, network - other.network};
  }
};

/// What kernels may ask of ranks that work together; see RunState::group. For them it is ordered in
/// the order of their device's work: where that is captured as a graph the gather may be put off,
/// so that no kernel looks at `recv` itself.
class KernelGroup {
 public:
  virtual ~KernelGroup() = default;
  virtual int size() const = 0;
  /// recv: [size][bytes], in rank order.
  virtual void all_gather(const void* send, void* recv, std::size_t bytes) = 0;
};

/// Ranks that work together. Every member calls the same collectives in the same order with
/// matching sizes. Throws CommError. Functions without `start_` block until complete.
class Communicator : public KernelGroup {
 public:
  virtual int rank() const = 0;

  /// Consecutive ranks that share a host, as many on every host; size() where all share one, and
  /// where hosts are not known or have different numbers. Equal on all ranks.
  virtual int ranks_per_node() const { return size(); }

  virtual void barrier() = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// On rank `root` recv is [size][bytes], in rank order; on others it may be null. Host memory.
  virtual void gather(const void* send, void* recv, std::size_t bytes, int root) {
    std::vector<std::byte> dropped(rank() == root ? 0 : bytes * std::size_t(size()));
    all_gather(send, rank() == root ? recv : dropped.data(), bytes);
  }
  /// Variable sizes: rank r contributes bytes[r]; recv is their concatenation.
  virtual void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) = 0;
  /// values[i] = the largest of the ranks' values[i], on every rank. Host memory. What ranks agree
  /// on by it costs each as little on many ranks as on two, other than what they gather.
  virtual void all_reduce_max(std::span<std::uint64_t> values) = 0;

  /// Whether collectives on device memory are ordered in the stream that the backend uses, as any
  /// other work: they begin when what was asked for before is done, their requests are complete at
  /// once, and what is asked for later on that stream finds their results. No function waits for
  /// them.
  virtual bool in_stream_order() const { return false; }
  /// Throws CommError where the network has failed since: what collectives in stream order left
  /// after is not to be used. To be asked whenever their results were waited for.
  virtual void require_healthy() {}

  /// Whether started collectives that receive into `memory` write it when test() or wait() finds
  /// them complete, in the order of the stream that the backend uses then, and not before: until
  /// then what lies there can be read by what was asked of that stream.
  virtual bool receives_apart(const void* /*memory*/) const { return false; }

  /// Prepares for `count` started collectives at once, so that starting them allocates nothing.
  virtual void reserve_requests(int /*count*/) {}

  /// Sends send[to[r]] to each rank r, receives from each rank r into recv[from[r]]. `send` may be
  /// `recv`, on all ranks alike and not null, where no block is both.
  virtual CommRequestPtr start_all_to_all(const float* send,
                                          std::span<const CommBlock> to,
                                          float* recv,
                                          std::span<const CommBlock> from) = 0;
  /// In place: rank r owns data[blocks[r]]; afterwards every rank has every block.
  virtual CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) = 0;
  /// In place sum, in whatever order the library likes.
  virtual CommRequestPtr start_all_reduce(float* data, std::int64_t elems) = 0;

  /// Members with the same `color` form a new communicator, ordered by `key`. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// Ends every rank of the job with `exit_code`. Does not return where there are other ranks.
  virtual void abort(int exit_code) = 0;
};

/// Of a rank whose host is one of several with equally many ranks; null: there are no such hosts.
struct HostCommunicators {
  Communicator* host = nullptr;          ///< the ranks of its host
  Communicator* across_hosts = nullptr;  ///< those of its place on all hosts
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/staged_communicator.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::size_t kFloat = sizeof(float);

/// Pinned memory that grows.
class Stage {
 public:
  explicit Stage(Backend& backend) : backend_(backend) {}

  std::byte* reserve(std::size_t bytes) {
    if (!memory_ || memory_->bytes() < bytes)
      memory_ = backend_.allocate_host(bytes, "communication buffers in pinned memory");
    return memory_->data();
  }
  float* data() { return memory_ ? memory_->as<float>() : nullptr; }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> memory_;
};

/// The same blocks one after the other.
std::int64_t pack_blocks(std::span<const CommBlock> blocks, std::vector<CommBlock>& packed) {
  packed.clear();
  std::int64_t offset = 0;
  for (const CommBlock& block : blocks) {
    packed.push_back({offset, block.elems});
    offset += block.elems;
  }
  return offset;
}

class StagedRequest;
using StagedRequestPool = std::vector<std::unique_ptr<StagedRequest>>;

/// A collective on host copies; what it received goes to the device when it is complete.
class StagedRequest final : public CommRequest {
 public:
  StagedRequest(Backend& backend, StagedRequestPool& pool)
      : send(backend), receive(backend), backend_(backend), pool_(pool) {}

  bool test() override {
    if (inner && !inner->test()) return false;
    deliver();
    return true;
  }
  void wait() override {
    if (inner) inner->wait();
    deliver();
  }
  void release() override {
    // While an exception is in flight the network may still write into the stages: they leak with
    // what the inner communicator leaks.
    if (inner && std::uncaught_exceptions() > exceptions_) {
      inner.reset();
      return;
    }
    if (pending_) wait();
    pool_.emplace_back(this);
  }

  /// `received` blocks of `device` are to be filled from the receiving stage's `staged` ones.
  void expect(float* device, std::span<const CommBlock> received) {
    exceptions_ = std::uncaught_exceptions();
    device_ = device;
    received_.assign(received.begin(), received.end());
    pending_ = true;
  }

  /// Its stages may be written again.
  void resolve() {
    if (delivered_) backend_.synchronize();
    delivered_ = false;
  }

  Stage send, receive;
  std::vector<CommBlock> packed_to, packed_from;
  CommRequestPtr inner;

 private:
  void deliver() {
    inner.reset();
    if (!pending_) return;
    pending_ = false;
    delivered_ = true;
    for (std::size_t i = 0; i < received_.size(); ++i)
      backend_.copy_to_device(device_ + received_[i].offset,
                              receive.data() + packed_from[i].offset,
                              std::size_t(received_[i].elems) * kFloat);
  }

  Backend& backend_;
  StagedRequestPool& pool_;
  float* device_ = nullptr;
  std::vector<CommBlock> received_;
  int exceptions_ = 0;  // in flight when it was started
  bool pending_ = false;
  bool delivered_ = false;  // copies to the device may still read the stage
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Communicator& host, Backend& backend, DeviceReach reach)
      : host_(&host), backend_(backend), reach_(reach), send_(backend), receive_(backend) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int ranks_per_node() const override { return host_->ranks_per_node(); }
  void barrier() override { host_->barrier(); }

  void broadcast(void* data, std::size_t bytes, int root) override {
    if (resolves(data)) return host_->broadcast(data, bytes, root);
    std::byte* staged = send_.reserve(bytes);
    if (rank() == root) backend_.copy_to_host(staged, data, bytes);
    host_->broadcast(staged, bytes, root);
    if (rank() != root) to_device(data, staged, bytes);
  }

  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    if (resolves(send) && resolves(recv)) return host_->all_gather(send, recv, bytes);
    const std::size_t all = bytes * std::size_t(size());
    std::byte* received = receive_.reserve(all);
    host_->all_gather(staged(send, bytes), received, bytes);
    to_device(recv, received, all);
  }

  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    if (resolves(send) && resolves(recv)) return host_->all_gather_v(send, recv, bytes);
    const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
    std::byte* received = receive_.reserve(all);
    host_->all_gather_v(staged(send, bytes[std::size_t(rank())]), received, bytes);
    to_device(recv, received, all);
  }

  void reserve_requests(int count) override {
    host_->reserve_requests(count);
    pool_.reserve(std::size_t(count));
    while (pool_.size() < std::size_t(count))
      pool_.push_back(std::make_unique<StagedRequest>(backend_, pool_));
  }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    if (resolves(send) && resolves(recv)) return host_->start_all_to_all(send, to, recv, from);
    CommRequestPtr owner;
    StagedRequest& request = take_request(owner);
    float* sent = stage_for_sending(request, send, to);
    const std::int64_t incoming = pack_blocks(from, request.packed_from);
    request.receive.reserve(std::size_t(incoming) * kFloat);
    request.inner = host_->start_all_to_all(
        sent, request.packed_to, request.receive.data(), request.packed_from);
    request.expect(recv, from);
    return owner;
  }

  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    if (resolves(data)) return host_->start_all_gather(data, blocks);
    CommRequestPtr owner;
    StagedRequest& request = take_request(owner);
    const std::int64_t elems = pack_blocks(blocks, request.packed_from);
    request.receive.reserve(std::size_t(elems) * kFloat);
    const CommBlock own = blocks[std::size_t(rank())];
    backend_.copy_to_host(request.receive.data() + request.packed_from[std::size_t(rank())].offset,
                          data + own.offset,
                          std::size_t(own.elems) * kFloat);
    request.inner = host_->start_all_gather(request.receive.data(), request.packed_from);
    request.expect(data, blocks);
    return owner;
  }

  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    if (reaches(data)) return host_->start_all_reduce(data, elems);
    CommRequestPtr owner;
    StagedRequest& request = take_request(owner);
    const CommBlock whole{0, elems};
    pack_blocks({&whole, 1}, request.packed_from);
    request.receive.reserve(std::size_t(elems) * kFloat);
    backend_.copy_to_host(request.receive.data(), data, std::size_t(elems) * kFloat);
    request.inner = host_->start_all_reduce(request.receive.data(), elems);
    request.expect(data, {&whole, 1});
    return owner;
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> part = host_->split(color, key);
    auto staged = std::make_unique<StagedCommunicator>(*part, backend_, reach_);
    staged->owned_ = std::move(part);
    return staged;
  }
  void abort(int exit_code) override { host_->abort(exit_code); }

 private:
  bool reaches(const void* memory) const {
    return memory == nullptr || backend_.is_host_memory(memory);
  }
  /// Whether the network may be given `memory`, now.
  bool resolves(const void* memory) const {
    if (reaches(memory)) return true;
    if (reach_ == DeviceReach::none) return false;
    backend_.synchronize();
    return true;
  }

  /// `data` as the network can read it.
  const void* staged(const void* data, std::size_t bytes) {
    if (reaches(data)) return data;
    std::byte* copy = send_.reserve(bytes);
    backend_.copy_to_host(copy, data, bytes);
    return copy;
  }

  void to_device(void* to, const void* staged, std::size_t bytes) {
    if (reaches(to))
      std::copy_n(static_cast<const std::byte*>(staged), bytes, static_cast<std::byte*>(to));
    else
      backend_.copy_to_device(to, staged, bytes);
    backend_.synchronize();  // the next call writes into the same stage
  }

  float* stage_for_sending(StagedRequest& request,
                           const float* send,
                           std::span<const CommBlock> to) {
    const std::int64_t elems = pack_blocks(to, request.packed_to);
    request.send.reserve(std::size_t(elems) * kFloat);
    for (std::size_t r = 0; r < to.size(); ++r)
      if (to[r].elems > 0)
        backend_.copy_to_host(request.send.data() + request.packed_to[r].offset,
                              send + to[r].offset,
                              std::size_t(to[r].elems) * kFloat);
    return request.send.data();
  }

  StagedRequest& take_request(CommRequestPtr& owner) {
    if (pool_.empty()) pool_.push_back(std::make_unique<StagedRequest>(backend_, pool_));
    owner.reset(pool_.back().release());
    pool_.pop_back();
    auto& request = static_cast<StagedRequest&>(*owner);
    request.resolve();
    return request;
  }

  std::unique_ptr<Communicator> owned_;  // a part that split() made
  Communicator* host_;
  Backend& backend_;
  DeviceReach reach_;
  Stage send_, receive_;
  StagedRequestPool pool_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Communicator& host,
                                                       Backend& backend,
                                                       DeviceReach reach) {
  return std::make_unique<StagedCommunicator>(host, backend, reach);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/staged_communicator.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "lockstep/error.h"
#include "parallel/comm/staged_request.h"

namespace lockstep {
namespace {

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Communicator& host, Backend& backend, DeviceReach reach)
      : host_(&host),
        backend_(backend),
        reach_(reach),
        send_(backend),
        receive_(backend),
        asked_(backend.make_event()),
        arrived_(backend.make_event()),
        taken_(backend.make_event()) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int ranks_per_node() const override { return host_->ranks_per_node(); }
  bool receives_apart(const void* memory) const override {
    return reach_ == DeviceReach::none && !reaches(memory);
  }
  void barrier() override {
    queue_.start_all();
    host_->barrier();
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    queue_.start_all();
    if (resolves(data)) return host_->broadcast(data, bytes, root);
    std::byte* const both = free_stage(send_, bytes);
    if (rank() == root) to_host(both, data, bytes);
    host_->broadcast(both, bytes, root);
    if (rank() != root) to_device(data, both, bytes);
  }

  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    queue_.start_all();
    host_->gather(send, recv, bytes, root);  // of host memory alone
  }

  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    queue_.start_all();
    if (resolves(send) && resolves(recv)) return host_->all_gather(send, recv, bytes);
    const std::size_t all = bytes * std::size_t(size());
    std::byte* received = free_stage(receive_, all);
    host_->all_gather(staged(send, bytes), received, bytes);
    to_device(recv, received, all);
  }

  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    queue_.start_all();
    if (resolves(send) && resolves(recv)) return host_->all_gather_v(send, recv, bytes);
    const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
    std::byte* received = free_stage(receive_, all);
    host_->all_gather_v(staged(send, bytes[std::size_t(rank())]), received, bytes);
    to_device(recv, received, all);
  }

  void reserve_requests(int count) override {
    host_->reserve_requests(count);
    pool_.reserve(std::size_t(count));
    while (pool_.size() < std::size_t(count)) pool_.push_back(make_request());
  }

  void all_reduce_max(std::span<std::uint64_t> values) override { host_->all_reduce_max(values); }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    if (reaches(send) && reaches(recv)) {
      queue_.start_all();
      return host_->start_all_to_all(send, to, recv, from);
    }
    CommRequestPtr owner;
    take_request(owner).ask_all_to_all(
        send, to, recv, from, reach_ == DeviceReach::all_but_all_reduce);
    return owner;
  }

  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    if (reaches(data)) {
      queue_.start_all();
      return host_->start_all_gather(data, blocks);
    }
    CommRequestPtr owner;
    take_request(owner).ask_all_gather(data, blocks, reach_ == DeviceReach::all_but_all_reduce);
    return owner;
  }

  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    if (reaches(data)) {
      queue_.start_all();
      return host_->start_all_reduce(data, elems);
    }
    CommRequestPtr owner;
    take_request(owner).ask_all_reduce(data, elems);
    return owner;
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    queue_.start_all();
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
  bool resolves(const void* memory) {
    if (reaches(memory)) return true;
    if (reach_ == DeviceReach::none) return false;
    backend_.record(*asked_);
    asked_->wait();
    return true;
  }

  /// `stage`, when no copy to the device reads it any more.
  std::byte* free_stage(PinnedStage& stage, std::size_t bytes) {
    if (delivered_) taken_->wait();
    delivered_ = false;
    return stage.reserve(bytes);
  }

  /// Waits for the copy, and for what was asked of the stream in use before it alone.
  void to_host(std::byte* to, const void* data, std::size_t bytes) {
    if (reaches(data)) {
      std::copy_n(static_cast<const std::byte*>(data), bytes, to);
      return;
    }
    backend_.record(*asked_);
    const StreamScope scope(backend_, DeviceStream::copies_out);
    backend_.wait_for(*asked_);
    backend_.start_copy_to_host(to, data, bytes);
    backend_.record(*arrived_);
    arrived_->wait();
  }

  /// `data` as the network can read it.
  const void* staged(const void* data, std::size_t bytes) {
    if (reaches(data)) return data;
    std::byte* const copy = free_stage(send_, bytes);
    to_host(copy, data, bytes);
    return copy;
  }

  void to_device(void* to, const std::byte* staged, std::size_t bytes) {
    if (reaches(to)) {
      std::copy_n(staged, bytes, static_cast<std::byte*>(to));
      return;
    }
    backend_.copy_to_device(to, staged, bytes);
    backend_.record(*taken_);
    delivered_ = true;
  }

  std::unique_ptr<StagedRequest> make_request() {
    return std::make_unique<StagedRequest>(backend_, *host_, queue_, pool_);
  }

  /// The one used last whose stage is free: others may have no stage yet, which takes memory.
  StagedRequest& take_request(CommRequestPtr& owner) {
    if (pool_.empty()) pool_.push_back(make_request());
    const auto free = std::find_if(
        pool_.rbegin(), pool_.rend(), [](const auto& request) { return request->is_free(); });
    const auto taken = free == pool_.rend() ? pool_.begin() : std::prev(free.base());
    StagedRequest& request = **taken;
    owner.reset(taken->release());
    pool_.erase(taken);
    request.wait_until_free();
    return request;
  }

  std::unique_ptr<Communicator> owned_;  // a part that split() made
  Communicator* host_;
  Backend& backend_;
  DeviceReach reach_;
  PinnedStage send_, receive_;  // of collectives that block
  std::unique_ptr<DeviceEvent> asked_, arrived_, taken_;
  bool delivered_ = false;  // copies to the device may still read a stage
  StagedQueue queue_;
  StagedRequestPool pool_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Communicator& host,
                                                       Backend& backend,
                                                       DeviceReach reach) {
  return std::make_unique<StagedCommunicator>(host, backend, reach);
}

}  // namespace lockstep

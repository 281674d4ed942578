// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep::simulation {

/// Does what another communicator does, but for what a derived class changes.
class WrappedCommunicator : public Communicator {
 public:
  /// `inner` outlives it.
  explicit WrappedCommunicator(Communicator& inner) : inner_(&inner) {}
  explicit WrappedCommunicator(std::unique_ptr<Communicator> inner)
      : owned_(std::move(inner)), inner_(owned_.get()) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int ranks_per_node() const override { return inner_->ranks_per_node(); }
  bool in_stream_order() const override { return inner_->in_stream_order(); }
  void reserve_requests(int count) override { inner_->reserve_requests(count); }
  void barrier() override { inner_->barrier(); }
  void broadcast(void* data, std::size_t bytes, int root) override {
    inner_->broadcast(data, bytes, root);
  }
  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    inner_->gather(send, recv, bytes, root);
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    inner_->all_gather(send, recv, bytes);
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    inner_->all_gather_v(send, recv, bytes);
  }
  void all_reduce_max(std::span<std::uint64_t> values) override { inner_->all_reduce_max(values); }
  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    return inner_->start_all_to_all(send, to, recv, from);
  }
  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    return inner_->start_all_gather(data, blocks);
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    return inner_->start_all_reduce(data, elems);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return inner_->split(color, key);
  }
  void abort(int code) override { inner_->abort(code); }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
};

}  // namespace lockstep::simulation

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep::testing {

/// What travels through a ClaimedHosts and its parts, counted in addition to the exchange's own
/// count.
struct Traffic {
  std::uint64_t network_bytes = 0;  ///< of started collectives, to ranks of other claimed hosts
  int collectives_in_parts = 0;     ///< started in parts that not all ranks are in
};

/// Another communicator whose ranks claim to be on several hosts, in stream order or not.
class ClaimedHosts final : public Communicator {
 public:
  /// `claimed`, of all ranks, divides size(). All outlive it.
  ClaimedHosts(Communicator& all,
               int ranks_per_host,
               Traffic& traffic,
               bool in_stream_order = false)
      : inner_(&all),
        traffic_(traffic),
        all_ranks_(all.size()),
        ranks_per_host_(ranks_per_host),
        in_stream_order_(in_stream_order) {
    for (int r = 0; r < all.size(); ++r) ranks_.push_back(r);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int ranks_per_node() const override { return ranks_per_host_; }
  bool in_stream_order() const override { return in_stream_order_; }

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
  void reserve_requests(int count) override { inner_->reserve_requests(count); }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    for (int r = 0; r < size(); ++r) count(r, to[std::size_t(r)].elems);
    return started(inner_->start_all_to_all(send, to, recv, from));
  }
  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    for (int r = 0; r < size(); ++r) count(r, blocks[std::size_t(rank())].elems);
    return started(inner_->start_all_gather(data, blocks));
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    return started(inner_->start_all_reduce(data, elems));
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    auto part =
        std::make_unique<ClaimedHosts>(*inner_, ranks_per_host_, traffic_, in_stream_order_);
    part->owned_ = inner_->split(color, key);
    part->inner_ = part->owned_.get();
    part->all_ranks_ = all_ranks_;
    part->ranks_.resize(std::size_t(part->size()));
    const int own = ranks_[std::size_t(rank())];
    part->inner_->all_gather(&own, part->ranks_.data(), sizeof own);
    return part;
  }
  void abort(int exit_code) override { inner_->abort(exit_code); }

 private:
  int host(int member) const { return ranks_[std::size_t(member)] / ranks_per_host_; }
  void count(int member, std::int64_t elems) {
    if (host(member) != host(rank()))
      traffic_.network_bytes += std::uint64_t(elems) * sizeof(float);
  }
  CommRequestPtr started(CommRequestPtr request) {
    if (size() < all_ranks_) ++traffic_.collectives_in_parts;
    if (in_stream_order_) request->wait();
    return request;
  }

  std::unique_ptr<Communicator> owned_;  // a part that split() made
  Communicator* inner_;
  Traffic& traffic_;
  int all_ranks_, ranks_per_host_;
  bool in_stream_order_;
  std::vector<int> ranks_;  // [members], among all
};

}  // namespace lockstep::testing

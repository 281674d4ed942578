// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/simulation/wrapped_communicator.h"

namespace lockstep::simulation {

/// Notes each collective with its size, those of parts as well: "1.0: all-to-all 512" of the first
/// part of the second part of the whole.
class NotingCommunicator final : public WrappedCommunicator {
 public:
  /// `notes` outlives it.
  template <typename Inner>
  NotingCommunicator(Inner&& inner, std::vector<std::string>& notes, std::string name = "")
      : WrappedCommunicator(std::forward<Inner>(inner)), notes_(notes), name_(std::move(name)) {}

  void barrier() override { note("barrier", 0), WrappedCommunicator::barrier(); }
  void broadcast(void* data, std::size_t bytes, int root) override {
    note("broadcast", bytes), WrappedCommunicator::broadcast(data, bytes, root);
  }
  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    note("gather", bytes), WrappedCommunicator::gather(send, recv, bytes, root);
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    note("all-gather", bytes), WrappedCommunicator::all_gather(send, recv, bytes);
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    note("all-gather of sizes", 0), WrappedCommunicator::all_gather_v(send, recv, bytes);
  }
  void all_reduce_max(std::span<std::uint64_t> values) override {
    note("all-reduce of integers", values.size()), WrappedCommunicator::all_reduce_max(values);
  }
  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    note("all-to-all", sum(to));
    return WrappedCommunicator::start_all_to_all(send, to, recv, from);
  }
  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    note("all-gather of blocks", sum(blocks));
    return WrappedCommunicator::start_all_gather(data, blocks);
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    note("all-reduce", std::size_t(elems));
    return WrappedCommunicator::start_all_reduce(data, elems);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    note("split", 0);
    return std::make_unique<NotingCommunicator>(
        WrappedCommunicator::split(color, key),
        notes_,
        name_ + (name_.empty() ? "" : ".") + std::to_string(parts_++));
  }

 private:
  void note(const std::string& what, std::size_t size) {
    notes_.push_back(name_ + ": " + what + " " + std::to_string(size));
  }
  static std::size_t sum(std::span<const CommBlock> blocks) {
    std::size_t elems = 0;
    for (const CommBlock& block : blocks) elems += std::size_t(block.elems);
    return elems;
  }

  std::vector<std::string>& notes_;
  const std::string name_;
  int parts_ = 0;
};

}  // namespace lockstep::simulation

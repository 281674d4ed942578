// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/communicator.h"

namespace lockstep {

/// A rank alone. No MPI; every collective is at most a copy. abort() returns: there is no other
/// rank to end.
class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_gather(const void* send, void* recv, std::size_t bytes) override;
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override;
  void all_reduce_max(std::span<std::uint64_t>) override {}
  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override;
  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override;
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abort(int exit_code) override;
};

}  // namespace lockstep

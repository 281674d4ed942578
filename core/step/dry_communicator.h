// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/communicator.h"

namespace lockstep {

/// One of `size` ranks that are not there: collectives complete at once and move nothing. With a
/// DryBackend, an exchange can be gone through to learn what it would reserve and send. It knows no
/// hosts: where ranks turn out to be on several, an exchange reserves as much, and a rank with
/// shards sends as much or less, but for the rounding of chunks.
class DryCommunicator final : public Communicator {
 public:
  DryCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {}
  void broadcast(void*, std::size_t, int) override {}
  void all_gather(const void*, void*, std::size_t) override {}
  void all_gather_v(const void*, void*, std::span<const std::size_t>) override {}
  CommRequestPtr start_all_to_all(const float*,
                                  std::span<const CommBlock>,
                                  float*,
                                  std::span<const CommBlock>) override;
  CommRequestPtr start_all_gather(float*, std::span<const CommBlock>) override;
  CommRequestPtr start_all_reduce(float*, std::int64_t) override;
  /// Throws InternalError: who has which color is not known. With color 0 all ranks stay together.
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abort(int) override {}

 private:
  int rank_, size_;
};

}  // namespace lockstep

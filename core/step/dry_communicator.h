// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/communicator.h"

namespace lockstep {

/// A rank of `size` without the other ranks: collectives complete at once and move nothing; the
/// largest value of all ranks is its own. With a
/// DryBackend, a dry run of an exchange tells what it would reserve and send. It knows no hosts:
/// with ranks on several hosts an exchange reserves the same, but sends other bytes: Note [Two
/// levels] in hierarchical_reduction.h.
class DryCommunicator final : public Communicator {
 public:
  DryCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {}
  void broadcast(void*, std::size_t, int) override {}
  void all_gather(const void*, void*, std::size_t) override {}
  void all_gather_v(const void*, void*, std::span<const std::size_t>) override {}
  void all_reduce_max(std::span<std::uint64_t>) override {}
  CommRequestPtr start_all_to_all(const float*,
                                  std::span<const CommBlock>,
                                  float*,
                                  std::span<const CommBlock>) override;
  CommRequestPtr start_all_gather(float*, std::span<const CommBlock>) override;
  CommRequestPtr start_all_reduce(float*, std::int64_t) override;
  /// With color 0 all ranks stay together. Throws InternalError for others: the colors of the other
  /// ranks are unknown.
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abort(int) override {}

 private:
  int rank_, size_;
};

}  // namespace lockstep

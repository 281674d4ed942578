// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// Has the ranks stop after the same step, whichever of them was told to. They exchange one small
/// message that travels while the next step computes; where steps take microseconds, only every
/// n-th call sends one, by rank 0's clock, which travels in the same message.
class StopAgreement {
 public:
  /// Between two messages, where steps are shorter.
  static constexpr double kSeconds = 0.02;
  static constexpr int kMostCalls = 256;

  /// Collective. `asked` is called on this rank; empty: never asks, but still takes part.
  StopAgreement(Communicator& world, std::function<bool()> asked);
  ~StopAgreement();

  /// Every rank calls it equally often, at the same points. True on every rank at the same call,
  /// and from then on: some rank was asked to stop. Allocates nothing.
  bool poll();

 private:
  void send();
  bool receive();

  std::unique_ptr<Communicator> communicator_;  // null with one rank
  std::function<bool()> asked_;
  std::vector<float> messages_;  // of each rank: whether it was asked, calls until the next message
  std::vector<CommBlock> blocks_;
  CommRequestPtr request_;
  std::chrono::steady_clock::time_point sent_;
  int stride_ = 1, calls_ = 0;
  bool stopped_ = false;
};

}  // namespace lockstep

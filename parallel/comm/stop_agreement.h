// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/monotonic_clock.h"
#include "core/exec/communicator.h"

namespace lockstep {

/// What every rank put into one part of a message.
class RankParts {
 public:
  RankParts(const float* first, int stride, int ranks)
      : first_(first), stride_(stride), ranks_(ranks) {}
  int ranks() const { return ranks_; }
  const float* of(int rank) const { return first_ + std::ptrdiff_t(rank) * stride_; }

 private:
  const float* first_;
  int stride_, ranks_;
};

/// A few numbers that travel along with the StopAgreement's.
class MessagePart {
 public:
  virtual ~MessagePart() = default;
  virtual int floats() const = 0;
  /// A message is about to leave: at the same call of poll() on every rank.
  virtual void write(float* own) = 0;
  /// That message has come: at the same, later, call of poll() on every rank. Whatever it throws,
  /// it throws on all of them.
  virtual void read(const RankParts& parts) = 0;
};

/// Has the ranks stop after the same step, whichever of them was asked to. They exchange one small
/// message that travels while the next step computes; where steps take microseconds, only every
/// n-th call sends one, by rank 0's clock, which travels in the same message.
class StopAgreement {
 public:
  /// Between two messages, where steps are shorter.
  static constexpr double kSeconds = 0.02;
  static constexpr int kMaxCalls = 256;

  /// Collective. `asked` is called on this rank; empty: never asks, but still takes part. `parts`:
  /// the same ones on every rank; they must outlive it, and are never called where a rank is alone.
  StopAgreement(Communicator& world,
                std::function<bool()> asked,
                std::vector<MessagePart*> parts = {});
  ~StopAgreement();

  /// Every rank calls it equally often, at the same points. True on every rank at the same call,
  /// and from then on: some rank was asked to stop. `send`: a message leaves with this call in any
  /// case; the same on every rank. Allocates nothing. Throws what parts throw.
  bool poll(bool send = false);

 private:
  void send();
  bool receive();

  std::unique_ptr<Communicator> communicator_;  // null with one rank
  std::function<bool()> asked_;
  std::vector<MessagePart*> parts_;
  int floats_ = 0;  // that a rank sends
  // Of each rank: whether it was asked, calls until the next message, parts.
  std::vector<float> messages_;
  std::vector<CommBlock> blocks_;
  CommRequestPtr request_;
  MonotonicClock::time_point sent_;
  int stride_ = 1, calls_ = 0;
  bool stopped_ = false;
};

}  // namespace lockstep

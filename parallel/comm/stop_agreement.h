// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "core/exec/communicator.h"
#include "core/host/monotonic_clock.h"

namespace lockstep {

/// A few numbers that travel along with the StopAgreement's. Of each the sum over all ranks comes,
/// which is exact, in whatever order it is added up, where the numbers are integers with a sum
/// below 2^24 or all ranks but one write 0.
class MessagePart {
 public:
  virtual ~MessagePart() = default;
  /// The same on every rank, and always.
  virtual int floats() const = 0;
  /// A message is about to leave: at the same call of poll() on every rank. `own` holds zeros.
  virtual void write(float* own) = 0;
  /// That message has come: at the same, later, call of poll() on every rank, with the same sums.
  /// Whatever it throws, it throws on all of them.
  virtual void read(const float* sums) = 0;
};

/// Has the ranks stop after the same step, whichever of them was asked to. They add up one small
/// message, an all-reduce that travels while the next step computes; where steps are shorter than
/// seconds_between_messages(), only every n-th call sends one, by rank 0's clock, which travels in
/// the same message.
///
/// A rank sends and receives about 2 log2(N) messages for each, and keeps one, whatever the number
/// N of ranks. A rank that is asked to stop does so after at most two times between messages and
/// two steps.
class StopAgreement {
 public:
  /// Between two messages, where steps are shorter: kSeconds on up to kRanks ranks, then in
  /// proportion to the ranks, N kSeconds / kRanks, up to kMaxSeconds; schedulers leave some 30 s
  /// between signal and kill. So a rank sends 600 messages a second on 64 ranks, 63 on 1,024 and 14
  /// on 10,000.
  static constexpr double kSeconds = 0.02, kMaxSeconds = 2;
  static constexpr int kRanks = 64, kMaxCalls = 256;
  static double seconds_between_messages(int ranks);

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
  double seconds_ = kSeconds;
  // Ranks that were asked, calls until the next message (rank 0's), parts.
  std::vector<float> message_;
  CommRequestPtr request_;
  MonotonicClock::time_point sent_;
  int stride_ = 1, calls_ = 0;
  bool stopped_ = false;
};

}  // namespace lockstep

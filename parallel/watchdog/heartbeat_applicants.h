// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "parallel/watchdog/heartbeat_protocol.h"

namespace lockstep::watch {

/// Connections to a rank that have not proved yet that they are one of its children's.
///
/// There is room for a fixed number; a further one takes the place of the oldest: who holds places
/// without a word loses them to ranks, which send their proof as soon as they are connected. Each
/// is read for one Hello, into a buffer of that size, and closed at the first header that
/// announces anything else, or after kProveSeconds.
class Applicants {
 public:
  static constexpr double kProveSeconds = 5;

  Applicants() = default;
  /// `ranks`, sorted, are those that may come.
  Applicants(const Secret& secret, std::span<const int> ranks, int places);

  void add(Descriptor socket, double now);
  /// Reads what has come. The rank that has proved itself, whose connection is then the caller's;
  /// -1: none has, or it was sent away, or there is no such applicant.
  int read(int descriptor, Descriptor& proved);
  void drop_late(double now);
  void clear() { waiting_.clear(); }
  std::size_t count() const { return waiting_.size(); }

 private:
  struct Applicant {
    Descriptor socket;
    double since = 0;
    std::size_t got = 0;
    std::array<std::byte, sizeof(MessageHeader) + sizeof(Hello)> bytes{};
  };
  /// Of what has come: it cannot become a proof any more.
  static bool is_wrong(const Applicant& applicant);
  int rank_of(const Applicant& applicant) const;

  Secret secret_{};
  std::vector<int> ranks_;
  std::size_t places_ = 0;
  std::vector<Applicant> waiting_;  // the oldest first
};

}  // namespace lockstep::watch

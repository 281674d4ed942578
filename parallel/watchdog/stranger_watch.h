// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/exec/position.h"
#include "core/host/ip_address.h"
#include "parallel/watchdog/heartbeat_transport.h"

namespace lockstep {

/// Who is connected to ranks of the job and is not a rank, on all hosts: rank 0's watchdog sees its
/// own host's, and the others tell it theirs in time for its verdict. Used by the watchdog's
/// thread.
class StrangerWatch {
 public:
  /// `peers` must outlive it. `limit_s`: how long ranks may be without progress; 0: for ever.
  StrangerWatch(const watch::Peers& peers, std::vector<IpAddress> job_addresses, double limit_s);

  /// What rank 0 should know now: where this rank is one of two of another host that look (the
  /// other may be frozen), and has made no progress for half of the limit. Nothing where there is
  /// none, and was none before.
  std::optional<watch::Strangers> look(const PositionNote& note, double now);
  /// What another rank tells rank 0, which a rank between them keeps.
  void hear(const watch::Strangers& strangers);
  /// Above rank 0: until the parent can be sent it; of each rank the last.
  void keep(const watch::Strangers& strangers);
  bool keeps_some() const { return !kept_.empty(); }
  watch::Strangers take();
  /// Lines on this host's as it is now, and on what was heard of others.
  std::string all() const;

 private:
  struct Heard {
    int rank = -1;  // -1: this place is free
    std::string lines;
  };
  bool looks_for_rank_zero() const;
  std::string here() const;

  const watch::Peers& peers_;
  const std::vector<IpAddress> job_addresses_;
  const double patience_s_;
  const bool looks_;
  bool said_some_ = false;
  double progressed_ = 0, looked_ = 0;
  std::array<std::uint64_t, 3> place_{};
  std::array<Heard, 16> heard_;
  std::deque<watch::Strangers> kept_;
};

}  // namespace lockstep

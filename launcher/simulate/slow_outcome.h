// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "launcher/simulate/storm_request.h"

namespace lockstep {

/// Ranks and hosts of a storm that are slow, each until it is well or its host is replaced.
class SlowRanks {
 public:
  /// Refers to `request`.
  explicit SlowRanks(const StormRequest& request);
  /// Nothing is wrong any more with `host`.
  void replace_host(int host, double at);
  /// How many times as long a step takes.
  double factor(double now) const;
  /// When that changes after `now`; maybe never.
  double next_change(double now) const;
  /// Whom the run's watch for slow ranks has named, and when. `trained`: begin and end of the times
  /// in which the ranks trained.
  std::vector<FaultOutcome> outcomes(std::span<const std::pair<double, double>> trained) const;

 private:
  struct Slow {
    simulation::PlantedFault fault;
    double until = 0;
  };
  FaultOutcome outcome_of(const Slow& slow,
                          std::span<const std::pair<double, double>> trained) const;

  const StormRequest* request_;
  std::vector<Slow> slow_;
};

}  // namespace lockstep

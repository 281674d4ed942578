// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/simulation/planted_fault.h"

namespace CLI {
class App;
}

namespace lockstep {

/// What `lockstep simulate --faults` was asked to do.
struct StormFlags {
  std::string faults;  ///< FILE or poisson:MTTF; empty: no storm
  double hours = 24;
  std::int64_t storms = 1;  ///< by as many seeds
  std::int64_t exact_ranks = 1024;
  double storage_gbps = 20;     ///< 10^9 bytes a second, of all ranks together
  double snapshot_gbps = 0.35;  ///< 10^9 bytes a second, of each rank
  double launch_s = 60;
  std::int64_t max_restarts = 3;
  double backoff_s = 5;

  double mean_s = 0;                              ///< between faults that are drawn; 0: of a file
  std::vector<simulation::PlantedFault> planted;  ///< of a file

  bool any() const { return !faults.empty(); }
};

void declare_storm_flags(CLI::App& app, StormFlags& flags);
/// Reads --faults for `ranks`, the only count that there may be. Throws ConfigError: that, and what
/// applies with --faults alone.
void resolve_storm_flags(const CLI::App& app,
                         const std::vector<int>& ranks,
                         int ranks_per_host,
                         StormFlags& flags);

}  // namespace lockstep

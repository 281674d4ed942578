// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/report/timeline.h"
#include "launcher/simulate/simulate_flags.h"
#include "launcher/simulate/time_prediction.h"
#include "parallel/simulation/simulation.h"

namespace lockstep {

/// What one rank sends, at most over the ranks, and all of them.
struct RankTraffic {
  std::uint64_t calls = 0, messages = 0, bytes = 0, network_bytes = 0;  ///< the most of a rank
  std::uint64_t all_messages = 0, all_bytes = 0;
};

/// A rank count, simulated.
struct SimulatedRuns {
  int ranks = 1, hosts = 1;
  std::vector<std::string> failures;  ///< what did not hold, for people; empty: all did
  RankTraffic startup, step;          ///< of a step, the mean
  double startup_s = 0, step_s = 0;   ///< predicted; of the steps after the first the mean
  TimePrediction prediction;
  double samples_per_s = 0;
  std::int64_t steps = 0;
  std::int64_t min_micro_batches = 0, max_micro_batches = 0;
  bool sums_checked = false;
  std::int64_t summed_elems = 0;  ///< whose sums were followed, over ranks and steps
  simulation::Expression tree = simulation::kUnknown;
  std::int64_t parameter_elems = 0;
  std::int64_t orders = 1;  ///< of arrival that were tried
  double wall_s = 0;        ///< of this process, for the run by time
  std::uint64_t peak_bytes = 0;
  /// Of the last step on the largest rank count; without lanes where no flag asks for it.
  report::Timeline timeline = {};
};

/// The training of `flags` on each of its rank counts, once by time and once in each random order.
/// Failures of one count do not keep the next from being tried.
std::vector<SimulatedRuns> simulate_all(SimulateFlags& flags);

}  // namespace lockstep

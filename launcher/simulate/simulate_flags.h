// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/device_rate.h"
#include "launcher/settings/train_flags.h"
#include "launcher/simulate/storm_flags.h"
#include "launcher/simulate/time_flags.h"
#include "parallel/cost/network.h"

namespace lockstep {

/// What `lockstep simulate` was asked to do.
struct SimulateFlags {
  std::vector<int> ranks;  ///< ascending
  Network network;
  DeviceRate rate;
  std::int64_t arrival_orders = 1;  ///< random ones, in addition to that by time
  bool traces_sums = true;
  double spread = 0;
  TimeFlags time;
  std::string timeline, page;  ///< files; empty: none
  StormFlags storm;
  int storm_ranks = 0;  ///< `ranks` have as many samples each as these
  bool json = false;
  TrainFlags train;
  std::string help;
};

/// Throws ConfigError: flags that are unknown, missing or contradict each other.
SimulateFlags parse_simulate_flags(const std::vector<std::string>& arguments);

}  // namespace lockstep

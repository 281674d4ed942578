// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/profile/kernel_times.h"
#include "parallel/cost/network.h"
#include "parallel/simulation/cluster.h"

namespace CLI {
class App;
}

namespace lockstep {

/// What the times of `lockstep simulate` come from, but for network and data sheets.
struct TimeFlags {
  std::string file;                          ///< of --kernel-times; empty: none
  std::shared_ptr<const KernelTimes> times;  ///< read from it
  int cores = 0;                             ///< of a host; 0: each rank has its own
  double contention = 1;
  double turn_us = 0;
  std::int64_t repeats = 5;  ///< runs by time, each with its own draws
};

void declare_time_flags(CLI::App& app, TimeFlags& flags);

/// Reads --kernel-times, a file or the folder of a run; `rate` and `network` say whether
/// --device-rate and --network are given too. For processors without a network, `used` becomes
/// shared memory. Throws ConfigError.
void resolve_time_flags(TimeFlags& flags, bool rate, bool network, Network& used);

/// Changes `device`, which has the peaks of a data sheet, to what the flags say.
void apply(const TimeFlags& flags, simulation::DeviceModel& device);

}  // namespace lockstep

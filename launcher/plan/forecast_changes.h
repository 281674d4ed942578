// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/device_rate.h"
#include "parallel/cost/workload.h"

namespace lockstep {

/// A change is worth telling that makes samples a second at least so many times as many.
inline constexpr double kWorthwhileSpeedup = 1.05;

/// What takes another value than the run has, and what a step on the most ranks is then predicted
/// to take.
struct ForecastChange {
  std::string flags;  ///< "--reduction fast"
  std::string price;  ///< what else changes; may be empty
  StepCost cost = {};
  double efficiency = 1;
  double speedup = 1;  ///< samples a second, as a multiple of the run's
};

/// What a forecast was made of.
struct ForecastModel {
  Workload work;
  Machine machine;
  CostParameters parameters;
  DevicePeaks peaks;  ///< with which plan_work() was called
  std::optional<DeviceSheet> sheet = {};
};

/// `network`, where that is "nvlink" with the links of `sheet` inside a host.
Network with_links_of(const std::optional<DeviceSheet>& sheet, Network network);

/// Time of one rank / (ranks * time), both with the global batch of `share`.
double strong_efficiency(const ForecastModel& model, const RankShare& share, double global_batch);

/// Changes of one setting each (--reduction, --shards, --global-batch, --bucket-mb, --overlap,
/// --network) with which `request.ranks` ranks are predicted to do at least kWorthwhileSpeedup
/// times the samples a second, the best first, at most one for each setting. Empty for one rank.
std::vector<ForecastChange> find_changes(Backend& device,
                                         const PlanRequest& request,
                                         const ForecastModel& model);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/workload.h"

namespace lockstep {

/// The most ranks that are predicted.
inline constexpr int kMostForecastRanks = 100'000;

/// By default a summation tree has leaves for few ranks: a machine with more is predicted with a
/// leaf for each of them.
void make_shards_for(TrainOptions& options, int ranks);

/// A step on a number of ranks, predicted.
struct ForecastRow {
  int ranks = 1;
  RankShare share;               ///< with the global batch as it is
  StepCost strong;               ///< of that
  StepCost weak;                 ///< of the samples a rank that the largest number of ranks has
  double strong_efficiency = 1;  ///< time of one rank / (ranks * time)
  double weak_efficiency = 1;    ///< time of one rank / time
};

/// Predicted steps for machines that are not here.
struct Forecast {
  Network network;
  std::string compute;    ///< where the time of compute comes from
  bool measured = false;  ///< --step-ms
  CostParameters parameters;
  std::vector<ForecastRow> rows;  ///< 1, 2, 4, ... and request.ranks, as far as they can be planned
};

struct ForecastRequest {
  Network network;
  DevicePeaks peaks;             ///< of the device that is here; fp32_flops 0: there is none
  std::optional<double> step_s;  ///< one rank's step with its share of the batch, measured
  std::string device;
};

/// Each rank is taken to have a device, or a core, of its own, and nothing to wait for but the
/// others. Throws ConfigError: neither peaks nor a measured step, and as plan_work().
Forecast make_forecast(Backend& device, const PlanRequest& request, const ForecastRequest& asked);

std::string to_text(const Forecast& forecast);
nlohmann::ordered_json to_json(const Forecast& forecast);

}  // namespace lockstep

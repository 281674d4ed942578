// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/device_rate.h"
#include "launcher/plan/forecast_changes.h"
#include "parallel/cost/workload.h"

namespace lockstep {

/// The most ranks that are predicted.
inline constexpr int kMaxForecastRanks = 100'000;

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

/// Where the time of compute comes from.
enum class RateSource : std::uint8_t {
  step_ms,         ///< measured by the user
  device_rate,     ///< a data sheet's peaks and assumed shares of them, or a rate as given
  measured_peaks,  ///< of the device that is here
};

/// Predicted steps for machines that are not here.
struct Forecast {
  Network network;
  RateSource source = RateSource::measured_peaks;
  std::string compute;  ///< the source and its numbers, for people
  std::string device;   ///< whose rate it is: "H100"; empty: that of a number, of no known device
  CostParameters parameters;
  Reduction reduction = Reduction::reproducible;
  std::vector<ForecastRow> rows;  ///< 1, 2, 4, ... and request.ranks, as far as they can be planned
  std::vector<ForecastChange> changes;  ///< see find_changes()
};

struct ForecastRequest {
  Network network;
  DevicePeaks peaks;             ///< of the device that is here; fp32_flops 0: there is none
  std::optional<double> step_s;  ///< one rank's step with its share of the batch, measured
  std::optional<DeviceRate> rate;
  std::string device;  ///< that is planned for
};

/// Each rank is taken to have a device, or a core, of its own, and nothing to wait for but the
/// others. Where `rate` is a data sheet's, the network "nvlink" has that device's links inside a
/// host. Throws ConfigError: neither peaks, a rate nor a measured step, and as plan_work().
Forecast make_forecast(Backend& device, const PlanRequest& request, const ForecastRequest& asked);

std::string to_text(const Forecast& forecast);
nlohmann::ordered_json to_json(const Forecast& forecast);

}  // namespace lockstep

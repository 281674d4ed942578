// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/time_prediction.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using nlohmann::json;
using simulation::SimulationRequest;
using simulation::SimulationResult;
using simulation::StepEnd;

constexpr double kLow = 0.05, kHigh = 0.95;

double quantile(const std::vector<double>& sorted, double u) {
  if (sorted.size() == 1) return sorted.front();
  const double at = u * double(sorted.size() - 1);
  const auto below = std::min(std::size_t(at), sorted.size() - 2);
  return std::lerp(sorted[below], sorted[below + 1], at - double(below));
}

PredictedTime time_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {quantile(values, 0.5), quantile(values, kLow), quantile(values, kHigh)};
}

bool steps_differ(const simulation::DeviceModel& device) {
  return device.spread > 0 || (device.times && device.times->step_factors.size() > 1);
}

/// Steps of several runs. The first of each has none before it whose end it could wait for.
class Steps {
 public:
  void add(const SimulationResult& result) {
    startup_.push_back(result.startup_s);
    const std::size_t first = result.steps.size() > 1 ? 1 : 0;
    for (std::size_t i = first; i < result.steps.size(); ++i) {
      seconds_.push_back(result.steps[i].end - result.steps[i].begin);
      exposed_.push_back(result.steps[i].exposed);
    }
  }
  TimePrediction prediction() const {
    return {.step_s = time_of(seconds_),
            .exposed_s = time_of(exposed_),
            .steps = seconds_.size(),
            .efficiency = {},
            .startup_s = time_of(startup_),
            .first_missing = {}};
  }

 private:
  std::vector<double> seconds_, exposed_, startup_;
};

/// "12.1 ms (11.8 to 13)"
std::string milliseconds(const PredictedTime& time) {
  const std::string median = fmt::format("{:.4g} ms", time.median * 1e3);
  if (time.low == time.high) return median;
  return fmt::format("{} ({:.4g} to {:.4g})", median, time.low * 1e3, time.high * 1e3);
}

json to_object(const PredictedTime& time) {
  return {{"median", time.median}, {"low", time.low}, {"high", time.high}};
}

}  // namespace

TimePrediction predict_times(const SimulationRequest& request,
                             const SimulationResult& first,
                             std::int64_t repeats) {
  Steps steps;
  steps.add(first);
  SimulationRequest again = request;
  again.cluster.traces_sums = false;
  again.pictured_ranks.clear();
  for (std::int64_t i = 1; i < repeats && steps_differ(request.cluster.device); ++i) {
    again.cluster.seed = request.cluster.seed + std::uint64_t(i);
    steps.add(simulation::simulate(again));
  }
  TimePrediction prediction = steps.prediction();
  prediction.measured_kernels = first.kernels.measured.size();
  prediction.missing_kernels = first.kernels.missing.size();
  if (!first.kernels.missing.empty()) prediction.first_missing = *first.kernels.missing.begin();
  return prediction;
}

std::optional<double> step_of_one_rank(SimulationRequest request, std::int64_t repeats) {
  request.cluster.ranks = 1;
  request.cluster.traces_sums = false;
  request.pictured_ranks.clear();
  try {
    const SimulationResult result = simulation::simulate(request);
    if (result.ends.front().error) return std::nullopt;
    return predict_times(request, result, repeats).step_s.median;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::string to_text(const TimePrediction& p) {
  std::string text = fmt::format(
      "step {}, exposed exchange {}", milliseconds(p.step_s), milliseconds(p.exposed_s));
  if (p.efficiency)
    text += fmt::format(", {:.1f}% of one rank's rate on each", 100 * *p.efficiency);
  if (p.step_s.low < p.step_s.high)
    text += fmt::format("; nine of ten of {} simulated steps within the brackets", p.steps);
  if (p.missing_kernels > 0)
    text += fmt::format("; {} of {} kernels were not measured, first {}",
                        p.missing_kernels,
                        p.missing_kernels + p.measured_kernels,
                        p.first_missing);
  return text;
}

json to_object(const TimePrediction& p) {
  return {{"step_s", to_object(p.step_s)},
          {"exposed_s", to_object(p.exposed_s)},
          {"startup_s", to_object(p.startup_s)},
          {"steps", p.steps},
          {"efficiency", p.efficiency ? json(*p.efficiency) : json()},
          {"measured_kernels", p.measured_kernels},
          {"missing_kernels", p.missing_kernels}};
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale_result.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep {
namespace {

double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Milliseconds of a record; negative: it has none.
double member_ms(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : -1;
}

/// The experiment with the fewest ranks in this mode; a single rank stands for both.
const ScalePoint* base_of(const std::vector<ScalePoint>& points, Scaling mode) {
  for (const ScalePoint& point : points)
    if (point.experiment.mode == mode || point.experiment.ranks == 1) return &point;
  return nullptr;
}

double rate_of_a_rank(const ScalePoint& point) {
  return point.samples_per_s.median / point.experiment.ranks;
}

void add_efficiency(std::vector<ScalePoint>& points) {
  for (ScalePoint& point : points) {
    const double full =
        rate_of_a_rank(*base_of(points, point.experiment.mode)) * point.experiment.ranks;
    const Spread& rate = point.samples_per_s;
    point.efficiency = {rate.median / full, rate.least / full, rate.most / full};
  }
}

ScalePoint make_point(const ScaleFlags& flags,
                      const Experiment& experiment,
                      int index,
                      const std::vector<ScaleRun>& runs) {
  ScalePoint point;
  point.experiment = experiment;
  point.share = share_of(options_of(flags, experiment), experiment.ranks);
  point.held_out = flags.hold_out == experiment.ranks;
  std::vector<double> steps, exposed, rates;
  for (const ScaleRun& run : runs) {
    if (run.experiment != index || !run.error.empty()) continue;
    steps.push_back(run.times.step_s);
    exposed.push_back(run.times.exposed_s);
    rates.push_back(double(experiment.global_batch) / run.times.step_s);
  }
  point.repeats = int(steps.size());
  if (point.repeats == 0) return point;
  point.step_s = spread_of(steps);
  point.exposed_s = spread_of(exposed);
  point.samples_per_s = spread_of(rates);
  return point;
}

/// On a processor the exchange takes the core that it would have to hide behind; a GPU goes on.
CostParameters expected(const Machine& machine) {
  CostParameters start;
  start.overlap = machine.cores > 0 ? 0 : 1;
  return start;
}

void add_forecasts(const ScaleFlags& flags, const Workload& work, ScaleResult& result) {
  for (const int ranks : flags.predict)
    for (const Scaling mode : flags.modes) {
      const std::int64_t batch = flags.run.train.options.global_batch;
      ScaleForecast forecast;
      forecast.experiment = {mode, ranks, mode == Scaling::weak ? batch * ranks : batch};
      const ScalePoint* const base = base_of(result.points, mode);
      if (base == nullptr) continue;
      try {
        const RankShare share = share_of(options_of(flags, forecast.experiment), ranks);
        forecast.cost = predict(work, result.machine, *result.model, share);
      } catch (const ConfigError&) {
        continue;  // the batch is too small for so many
      }
      const double rate = double(forecast.experiment.global_batch) / forecast.cost.step_s();
      forecast.efficiency = rate / (ranks * rate_of_a_rank(*base));
      result.forecasts.push_back(forecast);
    }
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  const auto [least, most] = std::ranges::minmax(values);
  return {middle_of(std::move(values)), least, most};
}

RunTimes read_run_times(const std::string& folder) {
  const std::string file = folder + "/metrics.jsonl";
  std::ifstream stream(file);
  LOCKSTEP_CHECK(stream.is_open(), DataError, "{}: cannot be opened", file);
  std::vector<double> steps, exposed;
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step_ms")) continue;
    const double step = member_ms(record, "step_ms");
    const double wait = member_ms(record, "comm_exposed_ms");
    LOCKSTEP_CHECK(step > 0 && wait >= 0 && wait < step,
                   DataError,
                   "{}: a step of {} ms with {} ms of exposed communication",
                   file,
                   step,
                   wait);
    steps.push_back(step * 1e-3);
    exposed.push_back(wait * 1e-3);
  }
  LOCKSTEP_CHECK(steps.size() >= 2,
                 DataError,
                 "{}: {} logged steps, of which the first only warms up",
                 file,
                 steps.size());
  steps.erase(steps.begin());
  exposed.erase(exposed.begin());
  return {middle_of(std::move(steps)), middle_of(std::move(exposed))};
}

std::string read_run_device(const std::string& folder) {
  std::ifstream stream(folder + "/summary.json");
  const nlohmann::json summary = nlohmann::json::parse(stream, nullptr, false);
  if (!summary.is_object()) return {};
  const auto found = summary.find("device");
  return found != summary.end() && found->is_string() ? found->get<std::string>() : std::string();
}

ScaleResult evaluate_scale(const ScaleFlags& flags,
                           const std::vector<ScaleRun>& runs,
                           const std::optional<Workload>& work,
                           const Machine& machine) {
  ScaleResult result;
  result.machine = machine;
  result.network_assumed = flags.network.has_value();
  const std::vector<Experiment> experiments = experiments_of(flags);
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    ScalePoint point = make_point(flags, experiments[i], int(i), runs);
    if (point.repeats > 0) result.points.push_back(std::move(point));
  }
  add_efficiency(result.points);
  std::vector<MeasuredStep> measured;
  for (const ScalePoint& point : result.points)
    if (!point.held_out)
      measured.push_back({point.share, point.step_s.median, point.exposed_s.median});
  if (!work || measured.empty()) {
    result.no_model = work ? "no run that it could be fitted to is done"
                           : "the model's program could not be compiled here";
    return result;
  }
  result.model = fit(*work, machine, measured, expected(machine));
  for (ScalePoint& point : result.points)
    point.predicted = predict(*work, machine, *result.model, point.share);
  add_forecasts(flags, *work, result);
  return result;
}

}  // namespace lockstep

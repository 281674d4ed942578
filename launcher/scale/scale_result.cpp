// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale/scale_result.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/median.h"
#include "core/base/parameter_names.h"
#include "launcher/plan/forecast.h"

namespace lockstep {
namespace {

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
                      int ranks_per_host,
                      const std::vector<ScaleRun>& runs) {
  ScalePoint point;
  point.experiment = experiment;
  point.share = share_of(options_of(flags, experiment), experiment.ranks, ranks_per_host);
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

/// On a processor the exchange takes the core that it would have to overlap with; a GPU continues.
CostParameters expected(const Machine& machine) {
  CostParameters start;
  start.overlap = machine.on_gpus ? 1 : 0;
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
        TrainOptions options = options_of(flags, forecast.experiment);
        make_shards_for(options, ranks);
        forecast.cost = predict(work,
                                result.machine,
                                *result.model,
                                share_of(options, ranks, result.machine.network.ranks_per_host));
      } catch (const ConfigError& error) {
        result.unpredicted.push_back({forecast.experiment, error.what()});
        continue;
      }
      const double rate = double(forecast.experiment.global_batch) / forecast.cost.step_s();
      forecast.efficiency = rate / (ranks * rate_of_a_rank(*base));
      result.forecasts.push_back(forecast);
    }
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  const auto [least, most] = std::ranges::minmax(values);
  return {median_of(std::move(values)), least, most};
}

RunTimes read_run_times(const std::string& folder) {
  const std::string file = folder + "/metrics.jsonl";
  std::ifstream stream(file);
  LOCKSTEP_CHECK(stream.is_open(), DataError, "{}: cannot be opened", as_written(file));
  std::vector<double> steps, exposed;
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step_ms")) continue;
    const double step = member_ms(record, "step_ms");
    const double wait = member_ms(record, "comm_exposed_ms");
    LOCKSTEP_CHECK(step > 0 && wait >= 0 && wait < step,
                   DataError,
                   "{}: a step of {} ms with {} ms of exposed communication",
                   as_written(file),
                   step,
                   wait);
    steps.push_back(step * 1e-3);
    exposed.push_back(wait * 1e-3);
  }
  LOCKSTEP_CHECK(steps.size() >= 2,
                 DataError,
                 "{}: {} logged steps, and the first only warms up",
                 as_written(file),
                 steps.size());
  steps.erase(steps.begin());
  exposed.erase(exposed.begin());
  return {median_of(std::move(steps)), median_of(std::move(exposed))};
}

std::string read_run_device(const std::string& folder) {
  std::ifstream stream(folder + "/summary.json");
  const nlohmann::json summary = nlohmann::json::parse(stream, nullptr, false);
  if (!summary.is_object()) return {};
  const auto found = summary.find("device");
  return found != summary.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string explain_missing_fit(const ScaleResult& result, int ranks) {
  const int ranks_per_host = result.machine.network.ranks_per_host;
  if (ranks == 1) return {};
  if (!result.fitted.inside && !result.fitted.between)
    return "communication not fitted: no run with several ranks";
  if (ranks > ranks_per_host && !result.fitted.between)
    return "communication between hosts not fitted: no run on several hosts";
  if (ranks_per_host > 1 && !result.fitted.inside)
    return "communication inside a host not fitted: no run with several ranks on one";
  return {};
}

ScaleResult evaluate_scale(const ScaleFlags& flags,
                           const std::vector<ScaleRun>& runs,
                           const Workload& work,
                           const std::optional<Machine>& machine) {
  ScaleResult result;
  if (machine) result.machine = *machine;
  result.network_assumed = flags.network.has_value();
  const std::vector<Experiment> experiments = experiments_of(flags);
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    ScalePoint point =
        make_point(flags, experiments[i], int(i), result.machine.network.ranks_per_host, runs);
    if (point.repeats > 0) result.points.push_back(std::move(point));
  }
  add_efficiency(result.points);
  std::vector<MeasuredStep> measured;
  for (const ScalePoint& point : result.points)
    if (!point.held_out)
      measured.push_back({point.share, point.step_s.median, point.exposed_s.median});
  if (!machine || measured.empty()) {
    result.no_model = machine ? "no run that it could be fitted to is done"
                              : "no network named: ranks are on several hosts, and --network says "
                                "how these are connected";
    return result;
  }
  result.fitted = links_used(machine->network, measured);
  result.model = fit(work, *machine, measured, expected(*machine));
  for (ScalePoint& point : result.points)
    point.predicted = predict(work, *machine, *result.model, point.share);
  add_forecasts(flags, work, result);
  return result;
}

}  // namespace lockstep

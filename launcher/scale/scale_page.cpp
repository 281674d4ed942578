// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "launcher/report/chart.h"
#include "launcher/scale/scale_report.h"

namespace lockstep {
namespace {

using report::Curve;
using report::Json;

/// What a chart shows of an experiment: measured, and as the cost model predicts it.
using Measured = std::function<Spread(const ScalePoint&)>;
using Predicted = std::function<double(const Experiment&, const StepCost&)>;

/// Of a mode, the measured curve and the predicted one; one rank belongs to all modes.
struct ModeCurves {
  Curve measured, predicted;
  bool own = false;  ///< something was measured in this mode alone
};

ModeCurves curves_of(const ScaleResult& result,
                     Scaling mode,
                     const Measured& measured,
                     const Predicted& predicted) {
  const auto style = std::size_t(mode);
  ModeCurves curves;
  curves.measured = {std::string(name_of(mode)), {}, style, Curve::Draw::markers};
  curves.predicted = {fmt::format("{}, predicted", name_of(mode)), {}, style, Curve::Draw::hollow};
  for (const ScalePoint& point : result.points) {
    const Experiment& experiment = point.experiment;
    if (experiment.mode != mode && experiment.ranks != 1) continue;
    curves.own |= experiment.mode == mode;
    const Spread spread = measured(point);
    const auto ranks = double(experiment.ranks);
    curves.measured.points.push_back({ranks, spread.median});
    curves.measured.ranges.emplace_back(spread.least, spread.most);
    if (point.predicted)
      curves.predicted.points.push_back({ranks, predicted(experiment, *point.predicted)});
  }
  for (const ScaleForecast& forecast : result.forecasts)
    if (forecast.experiment.mode == mode)
      curves.predicted.points.push_back(
          {double(forecast.experiment.ranks), predicted(forecast.experiment, forecast.cost)});
  std::ranges::sort(curves.predicted.points, {}, &report::Point::step);
  return curves;
}

/// All numbers of ranks, measured and predicted, rising.
std::vector<double> rank_counts(const ScaleResult& result) {
  std::vector<double> counts;
  for (const ScalePoint& point : result.points) counts.push_back(point.experiment.ranks);
  for (const ScaleForecast& forecast : result.forecasts)
    counts.push_back(forecast.experiment.ranks);
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  return counts;
}

struct ChartAsked {
  const char *id, *title, *y_label;
  report::Unit unit = report::Unit::plain;
  Measured measured;
  Predicted predicted;
};

Json chart_of(const ScaleResult& result, const ChartAsked& asked) {
  report::LineChart chart{
      .id = asked.id,
      .title = asked.title,
      .description = fmt::format("{} by the number of ranks: medians with their "
                                 "range, and what the cost model predicts",
                                 asked.title),
      .y_label = asked.y_label,
      .unit = asked.unit,
      .from_zero = true,
      .x_label = "ranks",
      .x_ticks = rank_counts(result)};
  for (const Scaling mode : {Scaling::strong, Scaling::weak}) {
    ModeCurves curves = curves_of(result, mode, asked.measured, asked.predicted);
    if (!curves.own) continue;
    chart.curves.push_back(std::move(curves.measured));
    if (!curves.predicted.points.empty()) chart.curves.push_back(std::move(curves.predicted));
  }
  return report::chart_json(chart);
}

double predicted_rate(const Experiment& experiment, const StepCost& cost) {
  return double(experiment.global_batch) / cost.step_s();
}

/// Samples a second of a rank of the fewest ranks in a mode: efficiency 1.
double rank_rate(const ScaleResult& result, Scaling mode) {
  for (const ScalePoint& p : result.points)
    if (p.experiment.mode == mode || p.experiment.ranks == 1)
      return p.samples_per_s.median / p.efficiency.median / p.experiment.ranks;
  return 1;
}

Json charts_of(const ScaleResult& result) {
  const ChartAsked asked_charts[] = {
      {.id = "rate",
       .title = "Throughput",
       .y_label = "samples a second, all ranks",
       .measured = [](const ScalePoint& p) { return p.samples_per_s; },
       .predicted = predicted_rate},
      {.id = "efficiency",
       .title = "Efficiency",
       .y_label = "of a rank alone",
       .unit = report::Unit::percent,
       .measured = [](const ScalePoint& p) { return p.efficiency; },
       .predicted =
           [&](const Experiment& experiment, const StepCost& cost) {
             return predicted_rate(experiment, cost) /
                    (experiment.ranks * rank_rate(result, experiment.mode));
           }},
      {.id = "exposed",
       .title = "Exposed communication",
       .y_label = "milliseconds a step",
       .measured =
           [](const ScalePoint& p) {
             const Spread& s = p.exposed_s;
             return Spread{s.median * 1e3, s.least * 1e3, s.most * 1e3};
           },
       .predicted = [](const Experiment&, const StepCost& cost) { return cost.exposed_s * 1e3; }},
  };
  Json charts = Json::array();
  for (const ChartAsked& asked : asked_charts) report::append(charts, chart_of(result, asked));
  return charts;
}

}  // namespace

std::string scale_page(const ScaleSubject& subject, const ScaleResult& result) {
  Json results = Json::array();
  report::append(results, report::charts_block(charts_of(result)));
  report::append(results, report::block_of(scale_table(subject, result)));
  Json notes = Json::array();
  for (const std::string& line : scale_notes(subject, result))
    report::append(notes, report::paragraph(line));
  Json sections = Json::array();
  sections.push_back({{"id", "results"}, {"heading", "Results"}, {"blocks", std::move(results)}});
  sections.push_back(
      {{"id", "model"}, {"heading", "Predictions and notes"}, {"blocks", std::move(notes)}});
  return report::html_page(report::document_of("Scaling of " + subject.model, std::move(sections)));
}

}  // namespace lockstep

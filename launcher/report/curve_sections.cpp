// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <initializer_list>
#include <set>

#include "launcher/report/sections.h"

namespace lockstep::report {
namespace {

using Q = Quantity;

// A page of kMaxRuns runs stays below 2 MB.
constexpr std::size_t kMaxPoints = 3000, kMaxPointsOfAllRuns = 4500;
constexpr std::size_t kMaxMeans = 200, kMaxMeansOfAllRuns = 1600;

/// Points that a curve may have in a page of so many runs.
std::size_t max_points(const Runs& runs) {
  return std::min(kMaxPoints, kMaxPointsOfAllRuns / std::max<std::size_t>(1, runs.size()));
}

/// Points of a smooth line.
std::size_t max_means(const Runs& runs) {
  return std::min(kMaxMeans, kMaxMeansOfAllRuns / std::max<std::size_t>(1, runs.size()));
}

/// Adds a curve of one run to a chart of `runs`.
void add_curve(LineChart& chart,
               const Runs& runs,
               const Series& series,
               const std::string& name,
               std::size_t style,
               Curve::Draw draw) {
  if (series.empty()) return;
  const std::size_t means_shown = max_means(runs);
  std::vector<Point> points = extremes(series, max_points(runs));
  if (draw == Curve::Draw::line && series.records() > std::int64_t(2 * means_shown)) {
    chart.curves.push_back({name, std::move(points), style, Curve::Draw::band});
    chart.curves.push_back({name, means(series, means_shown), style, Curve::Draw::line, &series});
    return;
  }
  constexpr std::int64_t kMaxMarkers = 100;
  if (draw == Curve::Draw::markers && series.records() > kMaxMarkers) draw = Curve::Draw::line;
  chart.curves.push_back({name, std::move(points), style, draw, &series});
}

/// Whether steps of one run saw more samples than those of another, so that curves over steps would
/// compare what has seen different amounts of data.
bool differ_in_global_batch(const Runs& runs) {
  std::set<std::string> batches;
  for (const RunView& run : runs) {
    if ((*run)[Q::epoch].empty()) return false;
    batches.insert(run->config_value("global-batch"));
  }
  return batches.size() > 1 && !batches.contains("");
}

void show_over_epochs(LineChart& chart, const Runs& runs) {
  chart.x_label = "epoch";
  chart.description += "; over epochs, as a step is not as many samples in all runs";
  bool few = true;  // whose table has a row for each
  for (Curve& curve : chart.curves) {
    const auto same = [&](const RunView& run) { return run.style == curve.style; };
    const RunView& run = *std::find_if(runs.begin(), runs.end(), same);
    curve.epochs = extremes((*run)[Q::epoch], 2 * Series::kMaxBuckets);
    std::erase_if(curve.epochs, [](const Point& point) { return std::isnan(point.value); });
    constexpr double kDigits = 1e6;  // of 17
    for (Point& point : curve.points)
      point.step = std::round(kDigits * epoch_at(curve.epochs, point.step)) / kDigits;
    few = few && curve.points.size() <= kMaxTableRows && curve.draw != Curve::Draw::band;
  }
  if (!few) return;
  for (Curve& curve : chart.curves) curve.table = nullptr;
}

/// Starts and rollbacks, which explain a kink; of one run, since those of several would not be
/// distinguished.
void mark_events(LineChart& chart, const Runs& runs) {
  if (runs.size() > 1) return;
  for (const Start& start : runs[0]->starts)
    if (start.step > 0) chart.marks.push_back(double(start.step));
  for (const Event& event : runs[0]->rollbacks.kept) chart.marks.push_back(double(event.step));
  chart.marks_name = "resumed or rolled back";
}

/// One block with the charts that have something to draw.
Json blocks_of(std::initializer_list<Json> charts) {
  Json drawn = Json::array();
  for (const Json& chart : charts) append(drawn, chart);
  Json blocks = Json::array();
  append(blocks, charts_block(std::move(drawn)));
  return blocks;
}

/// One chart with training and validation of a run, or one of each with all runs.
void append_learning(Json& charts,
                     const Runs& runs,
                     const CurvesAsked& train,
                     const CurvesAsked& validation) {
  LineChart chart = chart_of(runs, train);
  if (runs.size() > 1) {
    LineChart validated = chart_of(runs, validation);
    if (differ_in_global_batch(runs))
      for (LineChart* shown : {&chart, &validated}) show_over_epochs(*shown, runs);
    append(charts, chart_json(chart));
    append(charts, chart_json(validated));
    return;
  }
  add_curve(chart,
            runs,
            (*runs[0])[validation.quantity],
            "validation",
            runs[0].style + 1,
            Curve::Draw::markers);
  mark_events(chart, runs);
  append(charts, chart_json(chart));
}

}  // namespace

LineChart chart_of(const Runs& runs, const CurvesAsked& asked) {
  LineChart chart{.id = asked.id,
                  .title = asked.title,
                  .description = asked.title,
                  .y_label = asked.y_label,
                  .unit = asked.unit,
                  .from_zero = asked.from_zero,
                  .may_be_logarithmic = asked.may_be_logarithmic};
  for (const RunView& run : runs) {
    const Series& series = (*run)[asked.quantity];
    if (series.empty()) continue;
    const std::string name = runs.size() > 1 ? run.label : asked.name;
    const auto draw = asked.markers ? Curve::Draw::markers : Curve::Draw::line;
    add_curve(chart, runs, series, name, run.style, draw);
    chart.description += fmt::format("; {}: between {} and {}, {} on average",
                                     name.empty() ? asked.title : name,
                                     format_value(series.least(), asked.unit),
                                     format_value(series.greatest(), asked.unit),
                                     format_value(series.mean(), asked.unit));
  }
  return chart;
}

Json learning_section(const Runs& runs) {
  Json charts = Json::array();
  append_learning(charts,
                  runs,
                  {.id = "loss",
                   .title = runs.size() > 1 ? "Training loss" : "Loss",
                   .y_label = "loss",
                   .quantity = Q::loss,
                   .name = "training",
                   .may_be_logarithmic = true},
                  {.id = "val-loss",
                   .title = "Validation loss",
                   .y_label = "loss",
                   .quantity = Q::val_loss,
                   .may_be_logarithmic = true,
                   .markers = true});
  append_learning(charts,
                  runs,
                  {.id = "accuracy",
                   .title = runs.size() > 1 ? "Training accuracy" : "Accuracy",
                   .y_label = "correct answers",
                   .quantity = Q::accuracy,
                   .name = "training",
                   .unit = Unit::percent},
                  {.id = "val-accuracy",
                   .title = "Validation accuracy",
                   .y_label = "correct answers",
                   .quantity = Q::val_accuracy,
                   .unit = Unit::percent,
                   .markers = true});
  Json blocks = Json::array();
  append(blocks, charts_block(std::move(charts)));
  return blocks;
}

Json throughput_section(const Runs& runs) {
  LineChart rate = chart_of(runs,
                            {.id = "rate",
                             .title = "Throughput",
                             .y_label = "samples a second, all ranks",
                             .quantity = Q::samples_per_s,
                             .name = "training",
                             .from_zero = true});
  const LineChart step = chart_of(runs,
                                  {.id = "step-time",
                                   .title = "Time of a step",
                                   .y_label = "milliseconds",
                                   .quantity = Q::step_ms,
                                   .name = "step",
                                   .may_be_logarithmic = true,
                                   .from_zero = true});
  const LineChart loader = chart_of(runs,
                                    {.id = "loader",
                                     .title = "What loading could deliver",
                                     .y_label = "samples a second, all ranks",
                                     .quantity = Q::loader_samples_per_s,
                                     .name = "loaders",
                                     .may_be_logarithmic = true,
                                     .from_zero = true});
  return blocks_of({chart_json(rate), chart_json(step), chart_json(loader)});
}

Json steps_section(const Runs& runs) {
  LineChart norm = chart_of(runs,
                            {.id = "norm",
                             .title = "Gradient norm",
                             .y_label = "norm",
                             .quantity = Q::grad_norm,
                             .name = "norm",
                             .may_be_logarithmic = true});
  mark_events(norm, runs);
  const LineChart rate = chart_of(runs,
                                  {.id = "lr",
                                   .title = "Learning rate",
                                   .y_label = "learning rate",
                                   .quantity = Q::lr,
                                   .name = "rate",
                                   .from_zero = true});
  return blocks_of({chart_json(norm), chart_json(rate)});
}

Json noise_section(const Runs& runs) {
  LineChart chart = chart_of(runs,
                             {.id = "noise",
                              .title = "Gradient noise scale",
                              .y_label = "samples",
                              .quantity = Q::noise_scale,
                              .name = "noise scale",
                              .may_be_logarithmic = true});
  Json blocks = Json::array();
  for (const RunView& run : runs) {
    if (!run->summary) continue;
    const std::string text = run->summary->text("noise_scale_words");
    if (!text.empty()) append(blocks, paragraph(runs.size() > 1 ? run.label + ": " + text : text));
  }
  if (chart.curves.empty() && blocks.empty()) return blocks;
  if (runs.size() == 1 && runs[0]->summary)
    if (const auto batch = runs[0]->summary->number("global_batch"))
      chart.levels.emplace_back("global batch", *batch);
  append(blocks,
         paragraph("Up to about this many samples, a larger global batch saves steps in proportion "
                   "(McCandlish et al. 2018).",
                   "quiet"));
  append(blocks, blocks_of({chart_json(chart)}));
  return blocks;
}

Json gpu_section(const Runs& runs) {
  struct Asked {
    Q quantity;
    const char *title, *y_label;
    Unit unit;
  };
  constexpr Asked kAsked[] = {
      {Q::gpu_busy, "Some kernel ran", "of the time", Unit::percent},
      {Q::gpu_bus_busy, "Memory controller utilization", "of the time", Unit::percent},
      {Q::gpu_memory_bytes, "Memory held", "whoever holds it", Unit::bytes},
      {Q::gpu_power_w, "Power", "watts", Unit::plain},
      {Q::gpu_clock_mhz, "Clock", "MHz", Unit::plain},
  };
  Json charts = Json::array();
  for (const Asked& asked : kAsked)
    append(charts,
           chart_json(chart_of(runs,
                               {.id = std::string(name_of(asked.quantity)),
                                .title = asked.title,
                                .y_label = asked.y_label,
                                .quantity = asked.quantity,
                                .name = "rank 0",
                                .unit = asked.unit,
                                .from_zero = true})));
  Json blocks = Json::array();
  append(blocks, charts_block(std::move(charts)));
  for (const RunView& run : runs) {
    if (!run->summary || run->summary->gpus.empty()) continue;
    constexpr std::size_t kMaxGpus = 16;
    Json tables = Json::array();
    for (std::size_t i = 0; i < std::min(kMaxGpus, run->summary->gpus.size()); ++i) {
      Table table{fmt::format("GPU of rank {}", i), {"quantity", "value"}, {}};
      for (const Setting& value : run->summary->gpus[i])
        table.rows.push_back({value.name, value.value});
      append(tables, block_of(table));
    }
    append(blocks,
           details(fmt::format("{}: GPUs by rank{}",
                               run.label,
                               run->summary->gpus.size() > kMaxGpus
                                   ? fmt::format(", the first {}", kMaxGpus)
                                   : std::string()),
                   std::move(tables)));
  }
  return blocks;
}

}  // namespace lockstep::report

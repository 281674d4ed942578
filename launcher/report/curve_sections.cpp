// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "launcher/report/html.h"
#include "launcher/report/sections.h"

namespace lockstep::report {
namespace {

using Q = Quantity;

constexpr std::size_t kMaxPoints = 1500, kPointsOfAllRuns = 7500;
constexpr std::size_t kMeans = 100;  // points of a smooth line

/// Starts and rollbacks, which explain a kink; of one run, since those of several would not be
/// distinguished.
void mark_events(LineChart& chart, const Runs& runs) {
  if (runs.size() > 1) return;
  for (const Start& start : runs[0]->starts)
    if (start.step > 0) chart.marks.push_back({double(start.step), 0});
  for (const Event& event : runs[0]->rollbacks.kept) chart.marks.push_back({double(event.step), 0});
  chart.marks_label = "resumed or rolled back";
}

std::string in_charts(const std::string& figures) {
  return figures.empty() ? figures : "<div class=\"charts\">" + figures + "</div>\n";
}

std::string learning_chart(const Runs& runs,
                           const CurvesAsked& train,
                           const CurvesAsked& validation) {
  if (runs.size() > 1) return html_of(chart_of(runs, train)) + html_of(chart_of(runs, validation));
  LineChart chart = chart_of(runs, train);
  add_curve(chart,
            (*runs[0])[validation.quantity],
            "validation",
            runs[0].style + 1,
            Curve::Draw::dots,
            max_points(runs));
  mark_events(chart, runs);
  return html_of(chart);
}

}  // namespace

std::size_t max_points(const Runs& runs) {
  return std::min(kMaxPoints, kPointsOfAllRuns / std::max<std::size_t>(1, runs.size()));
}

void add_curve(LineChart& chart,
               const Series& series,
               const std::string& name,
               std::size_t style,
               Curve::Draw draw,
               std::size_t most) {
  if (series.empty()) return;
  if (draw == Curve::Draw::line && series.records() > std::int64_t(2 * kMeans)) {
    chart.curves.push_back({name, extremes(series, most), style, Curve::Draw::faint});
    chart.curves.push_back({name, means(series, kMeans), style, Curve::Draw::line, &series});
    return;
  }
  constexpr std::int64_t kMaxDots = 100;
  if (draw == Curve::Draw::dots && series.records() > kMaxDots) draw = Curve::Draw::line;
  chart.curves.push_back({name, extremes(series, most), style, draw, &series});
}

LineChart chart_of(const Runs& runs, const CurvesAsked& asked) {
  LineChart chart{.id = asked.id,
                  .title = asked.title,
                  .description = fmt::format("{} over the steps", asked.title),
                  .y_label = asked.y_label,
                  .unit = asked.unit,
                  .from_zero = asked.from_zero,
                  .may_be_logarithmic = asked.may_be_logarithmic};
  for (const RunView& run : runs) {
    const Series& series = (*run)[asked.quantity];
    if (series.empty()) continue;
    const std::string name = runs.size() > 1 ? run.label : asked.name;
    const auto draw = asked.dots ? Curve::Draw::dots : Curve::Draw::line;
    add_curve(chart, series, name, run.style, draw, max_points(runs));
    chart.description += fmt::format("; {}: between {} and {}, {} on average",
                                     name.empty() ? asked.title : name,
                                     format_value(series.least(), asked.unit),
                                     format_value(series.greatest(), asked.unit),
                                     format_value(series.mean(), asked.unit));
  }
  return chart;
}

std::string learning_section(const Runs& runs) {
  std::string html = learning_chart(runs,
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
                                     .dots = true});
  html += learning_chart(runs,
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
                          .dots = true});
  return in_charts(html);
}

std::string throughput_section(const Runs& runs) {
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
                                     .title = "Samples/s that the loader could deliver",
                                     .y_label = "samples a second, all ranks",
                                     .quantity = Q::loader_samples_per_s,
                                     .name = "loaders",
                                     .may_be_logarithmic = true,
                                     .from_zero = true});
  return in_charts(html_of(rate) + html_of(step) + html_of(loader));
}

std::string steps_section(const Runs& runs) {
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
  return in_charts(html_of(norm) + html_of(rate));
}

std::string noise_section(const Runs& runs) {
  LineChart chart = chart_of(runs,
                             {.id = "noise",
                              .title = "Gradient noise scale",
                              .y_label = "samples",
                              .quantity = Q::noise_scale,
                              .name = "noise scale",
                              .may_be_logarithmic = true});
  std::string words;
  for (const RunView& run : runs) {
    if (!run->summary) continue;
    const std::string text = run->summary->text("noise_scale_words");
    if (text.empty()) continue;
    words += paragraph(runs.size() > 1 ? run.label + ": " + text : text);
  }
  if (chart.curves.empty() && words.empty()) return {};
  if (runs.size() == 1 && runs[0]->summary)
    if (const auto batch = runs[0]->summary->number("global_batch"))
      chart.levels.emplace_back("global batch", *batch);
  return words +
         "<p class=\"quiet\">Up to about this many samples, a larger global batch saves steps in "
         "proportion (McCandlish et al. 2018).</p>\n" +
         in_charts(html_of(chart));
}

std::string gpu_section(const Runs& runs) {
  struct Asked {
    Q quantity;
    const char *title, *y_label;
    Unit unit;
  };
  constexpr Asked kAsked[] = {
      {Q::gpu_busy, "Some kernel ran", "of the time", Unit::percent},
      {Q::gpu_bus_busy, "Memory controller busy", "of the time", Unit::percent},
      {Q::gpu_memory_bytes, "Memory held", "whoever holds it", Unit::bytes},
      {Q::gpu_power_w, "Power", "watts", Unit::plain},
      {Q::gpu_clock_mhz, "Clock", "MHz", Unit::plain},
  };
  std::string html;
  for (const Asked& asked : kAsked)
    html += html_of(chart_of(runs,
                             {.id = std::string(name_of(asked.quantity)),
                              .title = asked.title,
                              .y_label = asked.y_label,
                              .quantity = asked.quantity,
                              .name = "rank 0",
                              .unit = asked.unit,
                              .from_zero = true}));
  html = in_charts(html);
  for (const RunView& run : runs) {
    if (!run->summary || run->summary->gpus.empty()) continue;
    constexpr std::size_t kGpusShown = 16;
    std::string lists;
    for (std::size_t i = 0; i < std::min(kGpusShown, run->summary->gpus.size()); ++i) {
      Table table{fmt::format("GPU of rank {}", i), {"quantity", "value"}, {}};
      for (const Setting& value : run->summary->gpus[i])
        table.rows.push_back({value.name, value.value});
      lists += html_of(table);
    }
    html += details(fmt::format("{}: GPUs by rank{}",
                                run.label,
                                run->summary->gpus.size() > kGpusShown
                                    ? fmt::format(", the first {}", kGpusShown)
                                    : std::string()),
                    lists);
  }
  return html;
}

}  // namespace lockstep::report

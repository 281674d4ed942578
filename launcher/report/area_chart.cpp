// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "launcher/report/chart.h"
#include "launcher/report/chart_frame.h"
#include "launcher/report/html.h"

namespace lockstep::report {
namespace {

constexpr int kAreaTicks = 5;

std::string draw_layer(const AreaChart::Layer& layer,
                       const std::vector<double>& below,
                       const std::vector<double>& steps,
                       const Frame& frame) {
  std::string points;
  const auto add = [&](double step, double value) {
    if (!points.empty()) points += ' ';
    append_number(points, frame.x_of(step));
    points += ',';
    append_number(points, frame.y_of(value));
  };
  for (std::size_t i = 0; i < steps.size(); ++i) add(steps[i], below[i] + layer.values[i]);
  for (std::size_t i = steps.size(); i-- > 0;) add(steps[i], below[i]);
  return fmt::format("<polygon class=\"p{}\" points=\"{}\"/>\n", layer.style % kAreaStyles, points);
}

std::string area_table(const AreaChart& chart) {
  Table table{chart.title, {chart.x_label}, {}};
  for (const AreaChart::Layer& layer : chart.layers) table.header.push_back(layer.name);
  const std::size_t every = (chart.steps.size() + kTableRows - 1) / kTableRows;
  for (std::size_t i = 0; i < chart.steps.size(); i += every) {
    std::vector<std::string> row{format_number(chart.steps[i])};
    for (const AreaChart::Layer& layer : chart.layers)
      row.push_back(format_value(layer.values[i], chart.unit));
    table.rows.push_back(std::move(row));
  }
  return html_of(table);
}

}  // namespace

std::string html_of(const AreaChart& chart) {
  if (chart.steps.empty() || chart.layers.empty()) return {};
  std::vector<double> heights(chart.steps.size(), 0.0);
  for (const AreaChart::Layer& layer : chart.layers)
    for (std::size_t i = 0; i < heights.size(); ++i) heights[i] += layer.values[i];
  const double most = *std::max_element(heights.begin(), heights.end());
  const Frame frame =
      frame_of(linear_axis(chart.steps.front(), chart.steps.back(), kAreaTicks, Ends::as_given),
               linear_axis(0, most, kAreaTicks, Ends::rounded, chart.unit));
  std::string layers;
  std::vector<LegendEntry> entries;
  std::vector<double> below(chart.steps.size(), 0.0);
  for (const AreaChart::Layer& layer : chart.layers) {
    layers += draw_layer(layer, below, chart.steps, frame);
    entries.push_back({layer.name, fmt::format("p{}", layer.style % kAreaStyles), true});
    for (std::size_t i = 0; i < below.size(); ++i) below[i] += layer.values[i];
  }
  std::reverse(entries.begin(), entries.end());  // as they lie on one another
  return figure_of(chart.title,
                   svg_of(chart.id,
                          chart.title,
                          chart.description,
                          frame.height,
                          "",
                          draw_axes(frame, chart.x_label, chart.y_label) + layers),
                   entries.size() > 1 ? legend_of(entries) : std::string(),
                   area_table(chart));
}

}  // namespace lockstep::report

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "launcher/report/chart.h"
#include "launcher/report/chart_frame.h"
#include "launcher/report/html.h"

namespace lockstep::report {
namespace {

constexpr double kBar = 20, kPitch = 42, kLabelUp = 5, kTop = 4;
constexpr int kBarTicks = 4;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// A label above each bar: names of hosts and categories are long, and screens narrow.
std::string draw_bar(const BarChart& chart, const BarChart::Bar& bar, double top, double scale) {
  std::string svg = fmt::format(
      "<text x=\"4\" y=\"{0:.1f}\">{1}</text>"
      "<text x=\"{2}\" y=\"{0:.1f}\" text-anchor=\"end\">{3}</text>",
      top + kPitch - kBar - kLabelUp,
      escaped(bar.label),
      kChartWidth - 4,
      escaped(bar.total));
  double left = 4;
  for (std::size_t i = 0; i < bar.values.size(); ++i) {
    const double width = bar.values[i] * scale;
    if (width < 0.05) continue;
    svg += fmt::format(
        "<rect class=\"p{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>",
        chart.parts[i].style % kAreaStyles,
        left,
        top + kPitch - kBar,
        width,
        kBar);
    left += width;
  }
  return svg + "\n";
}

std::string bar_table(const BarChart& chart) {
  Table table{chart.title, {chart.row_label}, {}};
  for (const BarChart::Part& part : chart.parts) table.header.push_back(part.name);
  for (const BarChart::Bar& bar : chart.bars) {
    std::vector<std::string> row{bar.label};
    for (const double value : bar.values) row.push_back(format_value(value, chart.unit));
    table.rows.push_back(std::move(row));
  }
  return html_of(table);
}

}  // namespace

std::string html_of(const BarChart& chart) {
  double most = 0;
  for (const BarChart::Bar& bar : chart.bars) most = std::max(most, sum(bar.values));
  if (chart.bars.empty() || most <= 0) return {};
  const Axis axis = linear_axis(0, most, kBarTicks, Ends::as_given, chart.unit);
  const double room = kChartWidth - 8, scale = room / most;
  const double bottom = kTop + kPitch * double(chart.bars.size()) + 6;
  std::string content = "<g class=\"axes\">";
  for (const Tick& tick : axis.ticks) {
    const double x = 4 + tick.value * scale;
    content += fmt::format("<path d=\"M{:.1f} {:.1f}v4\"/>", x, bottom);
    const double half = 3.7 * double(tick.label.size());
    content += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           std::clamp(x, half, kChartWidth - half),
                           bottom + 18,
                           escaped(tick.label));
  }
  content += fmt::format("<path class=\"base\" d=\"M4 {0:.1f}H{1}\"/>", bottom, kChartWidth - 4);
  content += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text></g>\n",
                         kChartWidth - 4,
                         bottom + 34,
                         escaped(chart.x_label));
  double top = kTop;
  for (const BarChart::Bar& bar : chart.bars) {
    content += "<g class=\"bars\">" + draw_bar(chart, bar, top, scale) + "</g>";
    top += kPitch;
  }
  std::vector<LegendEntry> entries;
  for (const BarChart::Part& part : chart.parts)
    entries.push_back({part.name, fmt::format("p{}", part.style % kAreaStyles), true});
  return figure_of(chart.title,
                   svg_of(chart.id, chart.title, chart.description, bottom + 42, "", content),
                   entries.size() > 1 ? legend_of(entries) : std::string(),
                   bar_table(chart));
}

}  // namespace lockstep::report

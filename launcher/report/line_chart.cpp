// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/base/number_format.h"
#include "launcher/report/chart.h"
#include "launcher/report/chart_frame.h"
#include "launcher/report/html.h"

namespace lockstep::report {
namespace {

constexpr int kYTicks = 5, kXTicks = 6;
constexpr double kManyTimes = 40;  // greatest over least value from which logarithms show more

struct Extent {
  double first = 0, last = 0, least = 0, greatest = 0;
  bool any = false;
};

Extent extent_of(const LineChart& chart) {
  Extent extent;
  for (const Curve& curve : chart.curves)
    for (const Point& point : curve.points) {
      if (std::isnan(point.value)) continue;
      if (!extent.any) extent = {point.step, point.step, point.value, point.value, true};
      extent.first = std::min(extent.first, point.step);
      extent.last = std::max(extent.last, point.step);
      extent.least = std::min(extent.least, point.value);
      extent.greatest = std::max(extent.greatest, point.value);
    }
  return extent;
}

Axis x_axis(const Extent& extent) {
  // Steps are counted from 1; a run that branched off begins later.
  const double first = extent.first < extent.last / 10 ? 0 : extent.first;
  return linear_axis(first, extent.last, kXTicks, Ends::as_given);
}

Axis y_axis(const LineChart& chart, Extent extent) {
  for (const auto& [name, level] : chart.levels) {
    extent.least = std::min(extent.least, level);
    extent.greatest = std::max(extent.greatest, level);
  }
  constexpr double kMin = 1e-60;
  if (chart.may_be_logarithmic && extent.least > kMin &&
      extent.greatest > kManyTimes * extent.least)
    return logarithmic_axis(extent.least, extent.greatest);
  if (chart.from_zero || (extent.least > 0 && extent.least < extent.greatest / 3)) extent.least = 0;
  Axis axis = linear_axis(extent.least, extent.greatest, kYTicks, Ends::rounded, chart.unit);
  return axis;
}

/// `x,y x,y` of the stretches between gaps, as polylines.
std::string draw_curve(const Curve& curve, const Frame& frame) {
  const std::size_t style = curve.style % kLineStyles;
  const std::string start = fmt::format("<polyline class=\"c s{}{}\" data-n=\"{}\" points=\"",
                                        style,
                                        curve.draw == Curve::Draw::faint ? " faint" : "",
                                        escaped(curve.name));
  std::string svg;
  std::string points;
  std::size_t in_stretch = 0;
  std::string dots;
  const auto close = [&] {
    if (in_stretch == 1) points += " " + points;  // a line of one point is not drawn
    if (in_stretch > 0) svg += start + points + "\"/>\n";
    points.clear();
    in_stretch = 0;
  };
  for (const Point& point : curve.points) {
    if (std::isnan(point.value)) {
      close();
      continue;
    }
    if (in_stretch++ > 0) points += ' ';
    append_number(points, frame.x_of(point.step));
    points += ',';
    append_number(points, frame.y_of(point.value));
    if (curve.draw == Curve::Draw::dots)
      dots += fmt::format("M{:.1f} {:.1f}h0", frame.x_of(point.step), frame.y_of(point.value));
  }
  close();
  if (!dots.empty()) svg += fmt::format("<path class=\"dots s{}\" d=\"{}\"/>\n", style, dots);
  return svg;
}

std::string draw_marks(const LineChart& chart, const Frame& frame) {
  std::string svg;
  for (const Point& mark : chart.marks)
    if (mark.step >= frame.x.from && mark.step <= frame.x.to)
      svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>",
                         frame.x_of(mark.step),
                         frame.top,
                         frame.bottom);
  for (const auto& [name, level] : chart.levels)
    svg += fmt::format("<path class=\"level\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>",
                       frame.left,
                       frame.y_of(level),
                       frame.right);
  return svg;
}

std::string legend(const LineChart& chart) {
  std::vector<LegendEntry> entries;
  std::string band;
  for (const Curve& curve : chart.curves) {
    const std::string css = fmt::format("c s{}", curve.style % kLineStyles);
    if (curve.draw == Curve::Draw::faint)
      band = css + " faint";
    else
      entries.push_back({curve.name, css});
  }
  if (!band.empty()) entries.push_back({"faint: each step that was logged", band});
  if (!chart.marks.empty()) entries.push_back({chart.marks_label, "mark"});
  for (const auto& [name, level] : chart.levels)
    entries.push_back({fmt::format("{}: {}", name, format_value(level, chart.unit)), "level"});
  return entries.size() > 1 ? legend_of(entries) : std::string();
}

std::string table_of(const LineChart& chart) {
  Table table{fmt::format("{}: means of the {}s up to each row", chart.title, chart.x_label),
              {chart.x_label},
              {}};
  double first = HUGE_VAL, last = 0;
  std::vector<const Series*> columns;
  for (const Curve& curve : chart.curves) {
    if (curve.table == nullptr || curve.table->empty()) continue;
    columns.push_back(curve.table);
    table.header.push_back(curve.name);
    first = std::min(first, curve.table->first_step());
    last = std::max(last, curve.table->last_step());
  }
  if (columns.empty()) return {};
  const double wanted = std::ceil((last - first + 1) / double(kTableRows));
  double after = first - 1;
  while (after < last) {
    const double until = std::min(last, std::ceil(after + std::max(wanted, 1.0)));
    std::vector<std::string> row{format_number(until)};
    bool any = false;
    for (const Series* series : columns) {
      const std::optional<double> mean = series->mean_between(after, until);
      any = any || mean;
      row.push_back(mean ? format_value(*mean, chart.unit) : "");
    }
    if (any) table.rows.push_back(std::move(row));
    after = until;
  }
  return html_of(table);
}

}  // namespace

std::string format_value(double value, Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return format_bytes(value);
    case Unit::percent:
      return fmt::format("{:.4g}%", 100 * value);
    case Unit::plain:
      break;
  }
  return format_number(value);
}

std::string html_of(const LineChart& chart) {
  const Extent extent = extent_of(chart);
  if (!extent.any) return {};
  const Axis y = y_axis(chart, extent);
  const Frame frame = frame_of(x_axis(extent), y);
  std::string content =
      draw_axes(frame, chart.x_label, chart.y_label + (y.logarithmic ? " (logarithmic)" : ""));
  content += draw_marks(chart, frame);
  for (const Curve& curve : chart.curves) content += draw_curve(curve, frame);
  // What the readout needs to tell values from places.
  const std::string attributes = fmt::format(
      "class=\"plot\" data-f=\"{:.1f} {:.1f} {:.1f} {:.1f}\" data-x=\"{} {}\" data-y=\"{} {}\" "
      "data-log=\"{}\" "
      "data-u=\"{}\" data-w=\"{}\"",
      frame.left,
      frame.top,
      frame.right,
      frame.bottom,
      frame.x.from,
      frame.x.to,
      y.from,
      y.to,
      y.logarithmic ? 1 : 0,
      int(chart.unit),
      escaped(chart.x_label));
  return figure_of(
      chart.title,
      svg_of(chart.id, chart.title, chart.description, frame.height, attributes, content),
      legend(chart),
      table_of(chart));
}

}  // namespace lockstep::report

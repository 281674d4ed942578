// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

namespace lockstep::report {
namespace {

constexpr double kMaxLinearRatio = 40;  // of max to min; beyond, a logarithmic axis shows more

/// With as many digits as a zoomed chart shows; null where it is not finite.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  constexpr double kMaxExact = 9e15;
  if (value == std::floor(value) && std::abs(value) < kMaxExact) return std::int64_t(value);
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

/// All digits: a step must not move.
Json step_number(double step) {
  if (step == std::floor(step)) return number(step);
  return step;
}

template <typename Values, typename ToJson>
Json list_of(const Values& values, const ToJson& to_json) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(to_json(value));
  return list;
}

std::string_view name_of(Curve::Draw draw) {
  switch (draw) {
    case Curve::Draw::band:
      return "band";
    case Curve::Draw::markers:
      return "markers";
    case Curve::Draw::hollow:
      return "hollow";
    case Curve::Draw::line:
      break;
  }
  return "line";
}

Json series_json(const Curve& curve) {
  Json series{{"name", curve.name}, {"style", curve.style}, {"draw", name_of(curve.draw)}};
  series["x"] = list_of(curve.points, [](const Point& point) { return step_number(point.step); });
  series["y"] = list_of(curve.points, [](const Point& point) { return number(point.value); });
  if (!curve.ranges.empty()) {
    series["min"] = list_of(curve.ranges, [](const auto& range) { return number(range.first); });
    series["max"] = list_of(curve.ranges, [](const auto& range) { return number(range.second); });
  }
  return series;
}

struct Extent {
  double min = HUGE_VAL, max = -HUGE_VAL;
  void take(double value) {
    if (std::isnan(value)) return;
    min = std::min(min, value);
    max = std::max(max, value);
  }
};

bool is_logarithmic(const LineChart& chart, const Extent& y) {
  constexpr double kMin = 1e-60;
  return chart.may_be_logarithmic && y.min > kMin && y.max > kMaxLinearRatio * y.min;
}

/// The same of points that rise in both: what stands at `at` of the first in the second.
double between(const std::vector<Point>& points,
               double at,
               double Point::*from,
               double Point::*to) {
  const auto above = [&](double value, const Point& point) { return value < point.*from; };
  const auto next = std::upper_bound(points.begin(), points.end(), at, above);
  if (next == points.begin()) return points.front().*to;
  const Point& before = *std::prev(next);
  if (next == points.end() || before.*from == at) return before.*to;
  const double share = (at - before.*from) / (*next.*from - before.*from);
  return before.*to + share * (*next.*to - before.*to);
}

/// Means of the series over equal stretches of epochs.
Table table_over_epochs(const LineChart& chart) {
  Table table{
      fmt::format("{}: means of the steps up to each row", chart.title), {chart.x_label}, {}};
  double last = 0;
  for (const Curve& curve : chart.curves) {
    if (curve.table == nullptr) continue;
    table.header.push_back(curve.name);
    last = std::max(last, curve.epochs.back().value);
  }
  for (std::size_t i = 1; i <= kMaxTableRows; ++i) {
    const double after = last * double(i - 1) / kMaxTableRows,
                 until = last * double(i) / kMaxTableRows;
    std::vector<std::string> row{format_number(until)};
    bool any = false;
    for (const Curve& curve : chart.curves) {
      if (curve.table == nullptr) continue;
      const double first = i == 1 ? curve.table->first_step() - 1 : step_at(curve.epochs, after);
      const auto mean = curve.table->mean_between(first, step_at(curve.epochs, until));
      any = any || mean;
      row.push_back(mean ? format_value(*mean, chart.unit) : "");
    }
    if (any) table.rows.push_back(std::move(row));
  }
  return table;
}

/// Means of the series over equal stretches of steps.
Table table_of_series(const LineChart& chart) {
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
  const double width = std::ceil((last - first + 1) / double(kMaxTableRows));
  for (double after = first - 1; after < last;) {
    const double until = std::min(last, std::ceil(after + std::max(width, 1.0)));
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
  return table;
}

/// A row for each x, with the range of a value after it.
Table table_of_points(const LineChart& chart) {
  Table table{chart.title, {chart.x_label}, {}};
  std::map<double, std::vector<std::string>> rows;
  for (std::size_t c = 0; c < chart.curves.size(); ++c) {
    const Curve& curve = chart.curves[c];
    table.header.push_back(curve.name);
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const auto& [x, y] = curve.points[i];
      auto& row = rows.try_emplace(x, chart.curves.size() + 1).first->second;
      row[0] = format_number(x);
      row[c + 1] = format_value(y, chart.unit);
      if (!curve.ranges.empty())
        row[c + 1] += fmt::format(" ({} to {})",
                                  format_value(curve.ranges[i].first, chart.unit),
                                  format_value(curve.ranges[i].second, chart.unit));
    }
  }
  for (auto& [x, row] : rows) table.rows.push_back(std::move(row));
  return table;
}

Json base_json(std::string_view type, const auto& chart) {
  return {{"type", type},
          {"id", chart.id},
          {"title", chart.title},
          {"description", chart.description},
          {"unit", name_of(chart.unit)},
          {"x_label", chart.x_label}};
}

}  // namespace

Json chart_json(const LineChart& chart) {
  Extent y;
  for (const Curve& curve : chart.curves) {
    for (const Point& point : curve.points) y.take(point.value);
    for (const auto& [min, max] : curve.ranges) {
      y.take(min);
      y.take(max);
    }
  }
  if (y.min > y.max) return nullptr;
  for (const auto& [name, level] : chart.levels) y.take(level);
  Json json = base_json("line", chart);
  json["y_label"] = chart.y_label;
  json["logarithmic"] = is_logarithmic(chart, y);
  json["from_zero"] = chart.from_zero || (y.min > 0 && y.min < y.max / 3);
  json["series"] = list_of(chart.curves, series_json);
  json["marks"] = list_of(chart.marks, step_number);
  json["marks_name"] = chart.marks_name;
  json["levels"] = list_of(chart.levels, [&](const auto& level) {
    return Json{
        {"name", fmt::format("{}: {}", level.first, format_value(level.second, chart.unit))},
        {"value", number(level.second)}};
  });
  if (!chart.x_ticks.empty()) json["x_ticks"] = list_of(chart.x_ticks, step_number);
  const bool has_series =
      std::ranges::any_of(chart.curves, [](const Curve& curve) { return curve.table != nullptr; });
  const bool over_epochs =
      std::ranges::any_of(chart.curves, [](const Curve& curve) { return !curve.epochs.empty(); });
  json["table"] = block_of(!has_series   ? table_of_points(chart)
                           : over_epochs ? table_over_epochs(chart)
                                         : table_of_series(chart));
  return json;
}

double epoch_at(const std::vector<Point>& epochs, double step) {
  return between(epochs, step, &Point::step, &Point::value);
}

double step_at(const std::vector<Point>& epochs, double epoch) {
  return between(epochs, epoch, &Point::value, &Point::step);
}

Json chart_json(const AreaChart& chart) {
  if (chart.steps.empty() || chart.layers.empty()) return nullptr;
  Json json = base_json("area", chart);
  json["y_label"] = chart.y_label;
  json["x"] = list_of(chart.steps, step_number);
  json["series"] = list_of(chart.layers, [](const AreaChart::Layer& layer) {
    return Json{{"name", layer.name}, {"style", layer.style}, {"y", list_of(layer.values, number)}};
  });
  Table table{chart.title, {chart.x_label}, {}};
  for (const AreaChart::Layer& layer : chart.layers) table.header.push_back(layer.name);
  const std::size_t every = (chart.steps.size() + kMaxTableRows - 1) / kMaxTableRows;
  for (std::size_t i = 0; i < chart.steps.size(); i += every) {
    std::vector<std::string> row{format_number(chart.steps[i])};
    for (const AreaChart::Layer& layer : chart.layers)
      row.push_back(format_value(layer.values[i], chart.unit));
    table.rows.push_back(std::move(row));
  }
  json["table"] = block_of(table);
  return json;
}

Json chart_json(const BarChart& chart) {
  const auto is_drawn = [](const BarChart::Bar& bar) {
    return std::ranges::any_of(bar.values, [](double value) { return value > 0; });
  };
  if (std::ranges::none_of(chart.bars, is_drawn)) return nullptr;
  Json json = base_json("bar", chart);
  json["labels"] = list_of(chart.bars, [](const BarChart::Bar& bar) { return bar.label; });
  json["totals"] = list_of(chart.bars, [](const BarChart::Bar& bar) { return bar.total; });
  json["series"] = Json::array();
  Table table{chart.title, {chart.row_name}, {}};
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    table.header.push_back(chart.parts[i].name);
    json["series"].push_back({{"name", chart.parts[i].name}, {"style", chart.parts[i].style}});
    json["series"].back()["y"] =
        list_of(chart.bars, [i](const BarChart::Bar& bar) { return number(bar.values[i]); });
  }
  for (const BarChart::Bar& bar : chart.bars) {
    std::vector<std::string> row{bar.label};
    for (const double value : bar.values) row.push_back(format_value(value, chart.unit));
    table.rows.push_back(std::move(row));
  }
  json["table"] = block_of(table);
  return json;
}

}  // namespace lockstep::report

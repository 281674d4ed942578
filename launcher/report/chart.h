// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/report/axis.h"
#include "launcher/report/series.h"

/// Charts as `<figure>` elements: an SVG whose colours and dashes the page's style sheet gives
/// (classes s0 to s7 for lines, p0 to p9 for areas), a legend, and a table of the data. Ids begin
/// with the chart's `id`, which is unique in the page. All texts get escaped.
namespace lockstep::report {

/// One line of a chart.
struct Curve {
  std::string name;
  std::vector<Point> points;  ///< a NaN breaks the line
  std::size_t style = 0;      ///< colour and dashes, modulo kLineStyles
  /// A faint line is drawn under another of its name, and is in neither legend nor readout.
  enum class Draw { line, faint, dots } draw = Draw::line;
  /// What the table shows of it; none: nothing, as for a curve that another one sums up.
  const Series* table = nullptr;
};
inline constexpr std::size_t kLineStyles = 8;
inline constexpr std::size_t kAreaStyles = 10;

struct LineChart {
  std::string id, title, description = {};
  std::string y_label = {};  ///< "loss", with its unit: "samples a second"
  std::vector<Curve> curves = {};
  Unit unit = Unit::plain;
  bool from_zero = false;
  bool may_be_logarithmic = false;  ///< it is where values span more than kManyDecades
  /// Steps at which something happened, as thin lines.
  std::vector<Point> marks = {};
  std::string marks_label = {};                             ///< "start" for the legend
  std::vector<std::pair<std::string, double>> levels = {};  ///< horizontal lines
  std::string x_label = "step";
};
/// Empty where no curve has a point.
std::string html_of(const LineChart& chart);

/// Layers on one another over steps: the parts of a whole.
struct AreaChart {
  std::string id, title, description = {};
  std::string y_label = {};
  std::vector<double> steps = {};  ///< where the layers are known; rising
  struct Layer {
    std::string name;
    std::vector<double> values;  ///< as many as steps, none below 0
    std::size_t style = 0;       ///< modulo kAreaStyles
  };
  std::vector<Layer> layers = {};  ///< the lowest first
  Unit unit = Unit::plain;
  std::string x_label = "step";
};
std::string html_of(const AreaChart& chart);

/// Horizontal bars, each of parts one after the other.
struct BarChart {
  std::string id, title, description = {};
  std::string x_label = {};
  struct Part {
    std::string name;
    std::size_t style = 0;
  };
  std::vector<Part> parts = {};  ///< one: no legend
  struct Bar {
    std::string label;
    std::vector<double> values;  ///< as many as parts, none below 0
    std::string total;           ///< in words, at its end
  };
  std::vector<Bar> bars = {};
  Unit unit = Unit::plain;
  std::string row_label = {};  ///< what a bar is: "rank"
};
std::string html_of(const BarChart& chart);

/// The most rows that a chart's table has.
inline constexpr std::size_t kTableRows = 40;

/// A value in a chart's table.
std::string format_value(double value, Unit unit);

}  // namespace lockstep::report

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/document.h"
#include "launcher/report/series.h"

/// Charts as JSON objects, which page/charts.js draws: title, description, axes, series and a table
/// of the data for readers who do not see the drawing. Ids are unique in a page.
namespace lockstep::report {

/// One line of a chart.
struct Curve {
  std::string name;
  std::vector<Point> points;  ///< a NaN breaks the line
  std::size_t style = 0;      ///< colour and dashes; the page repeats them
  /// band: a faint line below another of its name, in neither legend nor tooltip. markers: a line
  /// with its points. hollow: a dashed line with hollow points.
  enum class Draw { line, band, markers, hollow } draw = Draw::line;
  /// What the table shows of it; null: its points, where no curve of the chart has a series.
  const Series* table = nullptr;
  /// Of a curve over epochs: how many each step had reached, rising. Empty: x is the step.
  std::vector<Point> epochs = {};
  std::vector<std::pair<double, double>> ranges = {};  ///< min and max of each point; empty: none
};

/// The epoch that `step` lies in, between those of the steps around it. `epochs`: as Curve's, not
/// empty; beyond its ends the nearest. And the other way round.
double epoch_at(const std::vector<Point>& epochs, double step);
double step_at(const std::vector<Point>& epochs, double epoch);

/// Lines over steps, or over another quantity.
struct LineChart {
  std::string id, title, description = {};
  std::string y_label = {};  ///< "loss", with its unit: "samples a second"
  std::vector<Curve> curves = {};
  Unit unit = Unit::plain;
  bool from_zero = false;
  bool may_be_logarithmic = false;  ///< it is where the max is far above the min
  /// Steps at which something happened, as thin lines.
  std::vector<double> marks = {};
  std::string marks_name = {};                              ///< for the legend
  std::vector<std::pair<std::string, double>> levels = {};  ///< horizontal lines
  std::string x_label = "step";
  std::vector<double> x_ticks = {};  ///< not empty: x is logarithmic, with these ticks
};
/// Null where no curve has a point.
Json chart_json(const LineChart& chart);

/// Layers on one another over steps: the parts of a whole.
struct AreaChart {
  std::string id, title, description = {};
  std::string y_label = {};
  std::vector<double> steps = {};  ///< rising
  struct Layer {
    std::string name;
    std::vector<double> values;  ///< as many as steps, none below 0
    std::size_t style = 0;
  };
  std::vector<Layer> layers = {};  ///< the lowest first
  Unit unit = Unit::plain;
  std::string x_label = "step";
};
/// Null where there are no steps or layers.
Json chart_json(const AreaChart& chart);

/// Horizontal bars, each of parts one after the other.
struct BarChart {
  std::string id, title, description = {};
  std::string x_label = {};
  struct Part {
    std::string name;
    std::size_t style = 0;
  };
  std::vector<Part> parts = {};
  struct Bar {
    std::string label;
    std::vector<double> values;  ///< as many as parts, none below 0
    std::string total;           ///< in words, at its end
  };
  std::vector<Bar> bars = {};
  Unit unit = Unit::plain;
  std::string row_name = {};  ///< what a bar is: "rank"
};
/// Null where no bar is longer than 0.
Json chart_json(const BarChart& chart);

/// The max number of rows of a chart's table.
inline constexpr std::size_t kMaxTableRows = 40;

}  // namespace lockstep::report

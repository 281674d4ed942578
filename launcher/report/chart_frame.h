// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/axis.h"

/// What all charts have in common.
namespace lockstep::report {

inline constexpr double kChartWidth = 430;

/// The rectangle between the axes, in the SVG's units.
struct Frame {
  double left = 0, top = 14, right = kChartWidth - 12, bottom = 0, height = 0;
  Axis x, y;

  double x_of(double value) const { return left + x.place(value) * (right - left); }
  double y_of(double value) const { return bottom - y.place(value) * (bottom - top); }
};

/// A frame that leaves room for the labels of `y`.
Frame frame_of(const Axis& x, const Axis& y);

/// Grid, ticks and words of both axes.
std::string draw_axes(const Frame& frame, const std::string& x_label, const std::string& y_label);

/// `<svg>` with title and description for those who do not see it. `attributes` are its own.
std::string svg_of(std::string_view id,
                   std::string_view title,
                   std::string_view description,
                   double height,
                   std::string_view attributes,
                   std::string_view content);

struct LegendEntry {
  std::string name;
  std::string css;    ///< classes of the line or area
  bool area = false;  ///< a filled square, or a line
};
std::string legend_of(const std::vector<LegendEntry>& entries);

/// The chart with its heading above and its data below.
std::string figure_of(std::string_view title,
                      std::string_view svg,
                      std::string_view legend,
                      std::string_view table);

/// "123.4": as exact as a screen shows it.
void append_number(std::string& to, double value);

}  // namespace lockstep::report

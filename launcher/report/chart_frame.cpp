// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/chart_frame.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

#include "launcher/report/html.h"

namespace lockstep::report {
namespace {

constexpr double kCharacter = 8.8, kLine = 16;  // of the text in a chart, at its largest
constexpr double kBelow = 40, kFrameHeight = 256;

}  // namespace

void append_number(std::string& to, double value) {
  const auto tenths = std::int64_t(std::lround(value * 10));
  fmt::format_to(std::back_inserter(to), "{}", tenths / 10);
  if (tenths % 10 != 0) fmt::format_to(std::back_inserter(to), ".{}", std::abs(tenths % 10));
}

Frame frame_of(const Axis& x, const Axis& y) {
  Frame frame;
  std::size_t longest = 1;
  for (const Tick& tick : y.ticks) longest = std::max(longest, tick.label.size());
  frame.left = 10 + kCharacter * double(longest);
  frame.top = 24;
  frame.height = kFrameHeight;
  frame.bottom = frame.height - kBelow;
  frame.x = x;
  frame.y = y;
  return frame;
}

std::string draw_axes(const Frame& frame, const std::string& x_label, const std::string& y_label) {
  std::string svg = "<g class=\"axes\">";
  for (const Tick& tick : frame.y.ticks) {
    const double y = frame.y_of(tick.value);
    svg += fmt::format("<path d=\"M{0:.1f} {2:.1f}H{1:.1f}\"/>", frame.left, frame.right, y);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                       frame.left - 5,
                       y + 4,
                       escaped(tick.label));
  }
  double free_from = -kChartWidth;
  for (const Tick& tick : frame.x.ticks) {
    const double width = kCharacter * double(tick.label.size());
    const double x = frame.x_of(tick.value);
    const double middle = std::min(x, kChartWidth - width / 2);
    svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}v4\"/>", x, frame.bottom);
    if (middle - width / 2 < free_from) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                       middle,
                       frame.bottom + kLine + 3,
                       escaped(tick.label));
    free_from = middle + width / 2 + kCharacter;
  }
  svg += fmt::format("<path class=\"base\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>",
                     frame.left,
                     frame.top,
                     frame.bottom,
                     frame.right);
  svg += fmt::format("<text x=\"4\" y=\"13\">{}</text>", escaped(y_label));
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                     frame.right,
                     frame.bottom + 2 * kLine + 4,
                     escaped(x_label));
  return svg + "</g>\n";
}

std::string svg_of(std::string_view id,
                   std::string_view title,
                   std::string_view description,
                   double height,
                   std::string_view attributes,
                   std::string_view content) {
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1:.0f}\" role=\"img\" aria-labelledby=\"{2}-t {2}-d\" {3}>"
      "<title id=\"{2}-t\">{4}</title><desc id=\"{2}-d\">{5}</desc>\n{6}</svg>\n",
      kChartWidth,
      height,
      id,
      attributes,
      escaped(title),
      escaped(description),
      content);
}

std::string legend_of(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries)
    html += fmt::format(
        "<li><svg viewBox=\"0 0 28 12\" aria-hidden=\"true\">{}</svg>{}</li>",
        entry.area ? fmt::format("<rect class=\"{}\" width=\"28\" height=\"12\"/>", entry.css)
                   : fmt::format("<path class=\"{}\" d=\"M0 6H28\"/>", entry.css),
        escaped(entry.name));
  return html + "</ul>\n";
}

std::string figure_of(std::string_view title,
                      std::string_view svg,
                      std::string_view legend,
                      std::string_view table) {
  return fmt::format(
      "<figure><figcaption>{}</figcaption>\n{}{}{}</figure>\n",
      escaped(title),
      svg,
      legend,
      table.empty() ? std::string() : details(fmt::format("Data: {}", title), table));
}

}  // namespace lockstep::report

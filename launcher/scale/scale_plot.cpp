// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

#include "launcher/report/html.h"
#include "launcher/scale/scale_report.h"

namespace lockstep {
namespace {

constexpr double kPanelWidth = 300, kHeight = 220, kLeft = 62, kTop = 44, kGap = 92;
constexpr int kPanels = 3;

struct Dot {
  double ranks = 0, value = 0, least = 0, most = 0;
  double predicted = -1;  ///< negative: there is none
};

struct Series {
  std::string name;  ///< its class in the style sheet
  std::vector<Dot> dots;
};

/// 1, 2 or 5 times a power of ten, so that about four such steps reach `most`.
double tick_of(double most) {
  const double rough = most / 4, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (rough <= step * power) return step * power;
  return 10 * power;
}

std::string number(double value) { return fmt::format("{:g}", value); }

/// One of the images side by side: something over the number of ranks.
class Panel {
 public:
  Panel(int number, std::string title, std::vector<Series> series, std::vector<int> counts)
      : left_(kLeft + number * (kPanelWidth + kGap)),
        title_(std::move(title)),
        series_(std::move(series)),
        counts_(std::move(counts)) {
    for (const Series& s : series_)
      for (const Dot& dot : s.dots) most_ = std::max({most_, dot.most, dot.predicted});
    if (most_ <= 0) most_ = 1;
    tick_ = tick_of(most_);
    most_ = std::ceil(most_ / tick_ - 1e-9) * tick_;
  }

  std::string draw() const {
    std::string text = fmt::format(
        "<g><text class=\"title\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", left_, kTop - 16, title_);
    for (int i = 0; i * tick_ <= most_ * (1 + 1e-9); ++i)
      text += fmt::format(
          "<path class=\"grid\" d=\"M{:.1f} {:.1f}h{}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
          "text-anchor=\"end\">{}</text>\n",
          left_,
          y(i * tick_),
          kPanelWidth,
          left_ - 6,
          y(i * tick_) + 4,
          number(i * tick_));
    for (const int count : counts_)
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                          x(count),
                          kTop + kHeight + 18,
                          count);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">ranks</text>\n",
                        left_ + kPanelWidth / 2,
                        kTop + kHeight + 36);
    for (const Series& series : series_) text += draw(series);
    return text + "</g>\n";
  }

 private:
  double x(double ranks) const {
    const double first = std::log2(counts_.front()), last = std::log2(counts_.back());
    const double share = last > first ? (std::log2(ranks) - first) / (last - first) : 0.5;
    return left_ + 12 + share * (kPanelWidth - 24);
  }
  double y(double value) const { return kTop + kHeight * (1 - value / most_); }

  std::string line(const Series& series, bool predicted) const {
    std::string path;
    for (const Dot& dot : series.dots) {
      const double value = predicted ? dot.predicted : dot.value;
      if (value >= 0)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(dot.ranks), y(value));
    }
    return path.empty() ? path
                        : fmt::format("<path class=\"line {}{}\" d=\"{}\"/>\n",
                                      series.name,
                                      predicted ? " predicted" : "",
                                      path);
  }

  std::string draw(const Series& series) const {
    std::string text = line(series, true) + line(series, false);
    for (const Dot& dot : series.dots) {
      if (dot.predicted >= 0)
        text += fmt::format("<circle class=\"hollow {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n",
                            series.name,
                            x(dot.ranks),
                            y(dot.predicted));
      if (dot.value < 0) continue;
      text += fmt::format(
          "<path class=\"range {0}\" d=\"M{1:.1f} {2:.1f}V{3:.1f}\"/><circle class=\"{0}\" "
          "cx=\"{1:.1f}\" cy=\"{4:.1f}\" r=\"3\"><title>{0}, {5} ranks: {6:.4g}</title></circle>\n",
          series.name,
          x(dot.ranks),
          y(dot.least),
          y(dot.most),
          y(dot.value),
          dot.ranks,
          dot.value);
    }
    return text;
  }

  double left_;
  std::string title_;
  std::vector<Series> series_;
  std::vector<int> counts_;
  double most_ = 0, tick_ = 1;
};

using Value = std::function<Spread(const ScalePoint&)>;
using Predicted = std::function<double(const Experiment&, const StepCost&)>;

/// A line for each mode; one rank belongs to all of them.
std::vector<Series> series_of(const ScaleResult& result,
                              const Value& value,
                              const Predicted& predicted) {
  std::vector<Series> series;
  for (const Scaling mode : {Scaling::strong, Scaling::weak}) {
    Series line{std::string(name_of(mode)), {}};
    bool own = false;
    for (const ScalePoint& point : result.points) {
      const bool same = point.experiment.mode == mode;
      if (!same && point.experiment.ranks != 1) continue;
      own |= same;
      const Spread spread = value(point);
      line.dots.push_back({double(point.experiment.ranks),
                           spread.median,
                           spread.least,
                           spread.most,
                           point.predicted ? predicted(point.experiment, *point.predicted) : -1});
    }
    for (const ScaleForecast& forecast : result.forecasts)
      if (forecast.experiment.mode == mode)
        line.dots.push_back({double(forecast.experiment.ranks),
                             -1,
                             0,
                             0,
                             predicted(forecast.experiment, forecast.cost)});
    std::ranges::sort(line.dots, {}, &Dot::ranks);
    if (own) series.push_back(std::move(line));
  }
  return series;
}

constexpr std::string_view kStyle =
    "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.grid{stroke:#ddd}"
    ".line,.range{fill:none;stroke-width:2}.predicted{stroke-dasharray:4 4;stroke-width:1}"
    "path.strong,.hollow.strong{stroke:#0b62a4}path.weak,.hollow.weak{stroke:#b3521d}"
    "circle.strong{fill:#0b62a4}circle.weak{fill:#b3521d}circle.hollow{fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.grid{stroke:#444}"
    "path.strong,.hollow.strong{stroke:#6db3ea}path.weak,.hollow.weak{stroke:#f0a06a}"
    "circle.strong{fill:#6db3ea}circle.weak{fill:#f0a06a}circle.hollow{fill:none}}</style>\n";

/// Measured and predicted, rising.
std::vector<int> counts_of(const ScaleResult& result) {
  std::vector<int> counts;
  for (const ScalePoint& point : result.points) counts.push_back(point.experiment.ranks);
  for (const ScaleForecast& forecast : result.forecasts)
    counts.push_back(forecast.experiment.ranks);
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  return counts;
}

std::string draw_panels(const ScaleResult& result, const std::vector<int>& counts) {
  const auto rate = [](const Experiment& experiment, const StepCost& cost) {
    return double(experiment.global_batch) / cost.step_s();
  };
  // What a rank of the fewest ranks does in a mode: efficiency 1.
  const auto rank_rate = [&](Scaling mode) {
    for (const ScalePoint& p : result.points)
      if (p.experiment.mode == mode || p.experiment.ranks == 1)
        return p.samples_per_s.median / p.efficiency.median / p.experiment.ranks;
    return 1.0;
  };
  std::string text = Panel(0,
                           "samples a second",
                           series_of(
                               result, [](const auto& p) { return p.samples_per_s; }, rate),
                           counts)
                         .draw();
  text +=
      Panel(1,
            "efficiency",
            series_of(
                result,
                [](const auto& p) { return p.efficiency; },
                [&](const Experiment& experiment, const StepCost& cost) {
                  return rate(experiment, cost) / (experiment.ranks * rank_rate(experiment.mode));
                }),
            counts)
          .draw();
  text += Panel(2,
                "exposed communication, ms a step",
                series_of(
                    result,
                    [](const auto& p) {
                      const Spread& s = p.exposed_s;
                      return Spread{s.median * 1e3, s.least * 1e3, s.most * 1e3};
                    },
                    [](const Experiment&, const StepCost& cost) { return cost.exposed_s * 1e3; }),
                counts)
              .draw();
  return text;
}

}  // namespace

std::string scale_svg(const ScaleSubject& subject, const ScaleResult& result) {
  const std::vector<int> counts = counts_of(result);
  const double width = kLeft + kPanels * kPanelWidth + (kPanels - 1) * kGap + 20;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"{2}: throughput, efficiency and exposed "
      "communication by rank count\">\n{3}",
      width,
      kTop + kHeight + 76,
      report::escaped(subject.model),
      kStyle);
  if (!counts.empty()) text += draw_panels(result, counts);
  text += fmt::format(
      "<text x=\"{}\" y=\"{}\">{}; strong: blue, weak: orange; bars: range over repeats; hollow: "
      "predicted by the cost model</text>\n</svg>\n",
      kLeft,
      kTop + kHeight + 62,
      report::escaped(subject.model));
  return text;
}

}  // namespace lockstep

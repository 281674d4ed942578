// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/report/chart.h"
#include "launcher/report/run_record.h"

/// The parts of the page. Each function returns the inner HTML of a section, empty where the runs
/// have nothing for it.
namespace lockstep::report {

/// A run as the page shows it.
struct RunView {
  const RunRecord* run = nullptr;
  std::string label;  ///< differs from those of the other runs
  std::size_t style = 0;
  const RunRecord& operator*() const { return *run; }
  const RunRecord* operator->() const { return run; }
};
using Runs = std::vector<RunView>;

/// Points that one curve may have in a page of so many runs: 1,500 with up to five, fewer beyond.
std::size_t max_points(const Runs& runs);

/// One quantity of all runs as lines: a mean over a faint band of extremes where there are many
/// points. Alone, a run's curve is called `name`. Empty where no run has it.
struct CurvesAsked {
  std::string id, title, y_label;
  Quantity quantity = Quantity::loss;
  std::string name = {};
  Unit unit = Unit::plain;
  bool may_be_logarithmic = false, from_zero = false, dots = false;
};
LineChart chart_of(const Runs& runs, const CurvesAsked& asked);
/// Adds a curve of one run to a chart.
void add_curve(LineChart& chart,
               const Series& series,
               const std::string& name,
               std::size_t style,
               Curve::Draw draw,
               std::size_t most);

std::string overview_section(const Runs& runs);
std::string comparison_section(const Runs& runs);  ///< results and settings that differ
std::string advice_section(const Runs& runs);
std::string learning_section(const Runs& runs);  ///< loss and accuracy
std::string throughput_section(const Runs& runs);
std::string time_breakdown_section(
    const Runs& runs);                          ///< over time, and by run where there are several
std::string balance_section(const Runs& runs);  ///< by rank
std::string memory_section(const Runs& runs);
std::string noise_section(const Runs& runs);  ///< gradient noise scale
std::string steps_section(const Runs& runs);  ///< gradient norm and learning rate
std::string gpu_section(const Runs& runs);
std::string events_section(const Runs& runs);
std::string settings_section(const Runs& runs);  ///< environment and configuration

}  // namespace lockstep::report

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/report/chart.h"
#include "launcher/report/run_record.h"

/// The parts of the page. Each function returns the blocks of a section, an empty array where the
/// runs have nothing for it.
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

/// The document of a page about `runs`. At least one run, at most kMaxRuns.
Json document_of(std::span<const RunRecord> runs);

/// One quantity of all runs as lines: a mean over a faint band of extremes where there are many
/// points. Alone, a run's curve is called `name`. Empty where no run has it.
struct CurvesAsked {
  std::string id, title, y_label;
  Quantity quantity = Quantity::loss;
  std::string name = {};
  Unit unit = Unit::plain;
  bool may_be_logarithmic = false, from_zero = false, markers = false;
};
LineChart chart_of(const Runs& runs, const CurvesAsked& asked);

Json overview_section(const Runs& runs);
Json comparison_section(const Runs& runs);  ///< results and settings that differ
Json advice_section(const Runs& runs);
Json learning_section(const Runs& runs);  ///< loss and accuracy
Json class_section(const Runs& runs);     ///< recall and precision of each class, confusions
Json throughput_section(const Runs& runs);
Json time_breakdown_section(const Runs& runs);  ///< over time, and by run where there are several
Json balance_section(const Runs& runs);         ///< by rank
Json memory_section(const Runs& runs);
Json noise_section(const Runs& runs);  ///< gradient noise scale
Json steps_section(const Runs& runs);  ///< gradient norm and learning rate
Json gpu_section(const Runs& runs);
Json events_section(const Runs& runs);
Json settings_section(const Runs& runs);  ///< environment and configuration

}  // namespace lockstep::report

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/console.h"
#include "launcher/run_folder.h"

namespace lockstep {

/// The table of a profile, for people: a heading, then a line per operator.
std::vector<std::string> profile_table(const std::vector<ProfileLine>& lines, std::int64_t steps);

/// Prints the table of operators, and writes profile.txt (operators and layers) and trace.json
/// (chrome://tracing, ui.perfetto.dev) into the run's folder.
class ProfilePrinter final : public TrainObserver {
 public:
  ProfilePrinter(Console& console, RunFolder& folder) : console_(console), folder_(folder) {}
  void on_end(const TrainSummary& summary) override { steps_ = summary.steps - summary.resumed_at; }
  void on_profile(const ProfileRecord& record) override;

 private:
  Console& console_;
  RunFolder& folder_;
  std::int64_t steps_ = 1;
};

}  // namespace lockstep

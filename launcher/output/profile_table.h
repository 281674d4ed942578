// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/output/run_folder.h"
#include "lockstep/console.h"

namespace lockstep {

/// The table of a profile, for people: a heading, then a line per operator.
std::vector<std::string> profile_table(const std::vector<ProfileLine>& lines, std::int64_t steps);

/// What stands above the table: whose times, the peaks, and what is missing.
std::vector<std::string> profile_heading(const ProfileRecord& record);

/// Prints the table of operators, and writes profile.txt (operators and layers), trace.json
/// (chrome://tracing, ui.perfetto.dev) and kernel_times.json (lockstep simulate) into the run's
/// folder.
class ProfilePrinter final : public TrainObserver {
 public:
  ProfilePrinter(Console& console, RunFolder& folder) : console_(console), folder_(folder) {}
  void on_end(const TrainSummary& summary) override { steps_ = summary.steps - summary.resumed_at; }
  void on_profile_without_device(const std::string& why, const std::string& hint) override;
  void on_profile(const ProfileRecord& record) override;

 private:
  Console& console_;
  RunFolder& folder_;
  std::int64_t steps_ = 1;
  std::string without_device_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/doctor/finding.h"
#include "lockstep/error.h"

namespace lockstep::doctor {

/// What one rank found.
struct RankReport {
  int rank = 0;
  std::string host;
  Findings findings;
};

/// Of all ranks: one line a subject, the worst that any of them found; and who stands out.
struct Report {
  std::vector<RankReport> ranks;
  Findings lines;
  /// "rank 3 on node7: driver, processor"; empty where ranks are alike.
  std::vector<std::string> odd;
};

/// A rank stands out in a subject where its verdict is worse than that of others, its trait is not
/// that of most (of two different ones: both), or its rate is below 0.8 times the median. Such a
/// line is at least a warning and names it. Every report has the same subjects but for what is
/// seen on some hosts alone.
Report merge(std::vector<RankReport> reports);

/// 0, or 3 (environment) where a line failed.
ExitCode exit_code(const Report& report);

/// Aligned lines, a remedy under each warning and failure.
std::string to_text(const Report& report);
nlohmann::ordered_json to_json(const Report& report);

std::string to_message(const RankReport& report);
/// Throws InternalError: not what to_message() made.
RankReport from_message(const std::string& text);

}  // namespace lockstep::doctor

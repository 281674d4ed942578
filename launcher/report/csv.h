// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/report/run_record.h"

namespace lockstep::report {

/// How every file of write_csv() begins.
inline constexpr std::string_view kCsvMark = "run,kind,step,epoch,samples,loss,";

/// All lines of the runs' metrics.jsonl as a table (RFC 4180), none left out and no number rounded:
/// the run's folder, what the line is ("step", "evaluation", "checkpoint", "skipped_step",
/// "rollback"), its step, every quantity (empty: none), and a text: a
/// checkpoint's path or error, or why a step was left out. Hands it over in pieces. Throws what
/// read_metrics() throws.
void write_csv(std::span<const RunRecord> runs, const std::function<void(std::string_view)>& write);

}  // namespace lockstep::report

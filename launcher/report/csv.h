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

/// All lines of the runs' metrics.jsonl that are whole, as a table (RFC 4180), with the numbers
/// that this version knows, to the last bit; lists and objects in a line, and numbers of other
/// names, are not in it: the run's folder, what the line is ("step", "evaluation", "checkpoint",
/// "skipped_step", "rollback", "fault", "other"), its step, every quantity (empty: none, or no
/// finite number), and a text: a checkpoint's path or error, or why a step was skipped. Texts are
/// as of csv_name(). Hands it over in
/// pieces. Throws what read_metrics() throws.
void write_csv(std::span<const RunRecord> runs, const std::function<void(std::string_view)>& write);

}  // namespace lockstep::report

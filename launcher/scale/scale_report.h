// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/report/document.h"
#include "launcher/scale/scale_result.h"

namespace lockstep {

/// What the files of `lockstep scale` say in addition to its result.
struct ScaleSubject {
  std::string model, data, device;
  int repeats = 1;
  std::vector<ScaleRun> runs;
  bool complete = true;  ///< false: cut off, or a run failed
};

/// A table for people, with what the cost model says below it; lines with an end.
std::string scale_text(const ScaleSubject& subject, const ScaleResult& result);
std::string scale_markdown(const ScaleSubject& subject, const ScaleResult& result);
/// A header line, then a line an experiment; times in milliseconds.
std::string scale_csv(const ScaleResult& result);
std::string scale_json(const ScaleSubject& subject, const ScaleResult& result);

/// A page as of `lockstep report`: throughput, efficiency and exposed communication over ranks,
/// measured medians with their range and predictions hollow, with all that scale_text() says.
std::string scale_page(const ScaleSubject& subject, const ScaleResult& result);

/// A row for each experiment.
report::Table scale_table(const ScaleSubject& subject, const ScaleResult& result);
/// What the cost model says, failed runs, and whether runs are missing; a line each.
std::vector<std::string> scale_notes(const ScaleSubject& subject, const ScaleResult& result);

}  // namespace lockstep

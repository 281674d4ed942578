// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

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

/// Throughput, efficiency and exposed communication over ranks as one SVG image: measured
/// medians with their range, predictions hollow. Readable on a light and on a dark page.
std::string scale_svg(const ScaleSubject& subject, const ScaleResult& result);

}  // namespace lockstep

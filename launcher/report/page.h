// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "launcher/report/run_record.h"

namespace lockstep::report {

/// Runs in one page keep it readable, and its size in bounds.
inline constexpr std::size_t kMaxRuns = 16;

/// One HTML file that needs no other: no script, font or image from elsewhere. At least one run, at
/// most kMaxRuns.
std::string page_of(std::span<const RunRecord> runs);

}  // namespace lockstep::report

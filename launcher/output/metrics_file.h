// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/train_records.h"

namespace lockstep {

/// Rewrites a metrics.jsonl so that it holds what the run had written when the checkpoint was made
/// that it resumes from: later lines will be written again. Lines that are cut off or no JSON go.
/// The new file takes the place of the old one at once. Throws EnvironmentError.
void keep_metrics_before(const std::string& file, const ResumeRecord& resumed);

}  // namespace lockstep

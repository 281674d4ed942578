// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/train_records.h"

namespace lockstep {

/// Shortens a metrics.jsonl so that it holds what the run had written when the checkpoint was made
/// that it resumes from: later lines will be written again, and those after them that are cut off
/// or no JSON go as well. Reads from the end, however long the run is. Where lines that stay come
/// after others, a new file takes the place of the old one at once. Throws EnvironmentError.
void keep_metrics_before(const std::string& file, const ResumeRecord& resumed);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "launcher/predict/saved_run.h"

namespace lockstep {

/// Writes a line to standard output for each of the first `count` samples (0: all) of the labelled
/// data that open_labelled() opens: index, label, right or wrong, and the `top` likeliest classes;
/// of numbers and labels, what was expected and what is predicted. Where the run skips bad samples,
/// those that cannot be read are named on standard error and have no line. Throws ConfigError: a
/// gpt's, whose samples are windows; several ranks; DataError: a sample that cannot be read.
void predict_samples(const SavedRun& run, std::int64_t count, std::size_t top);

}  // namespace lockstep

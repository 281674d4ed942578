// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/train_records.h"

namespace lockstep {

/// For the end of a run: a line with the bottleneck and one with what to do for each advice.
std::vector<std::string> format_advice(const std::vector<Advice>& advice);

/// An array of objects: "cause", "text", "evidence", "remedy", "gain" (of the training time).
std::string advice_json(const std::vector<Advice>& advice);

}  // namespace lockstep

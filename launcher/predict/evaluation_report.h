// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/predict/evaluation_metrics.h"
#include "lockstep/preprocessing.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// What an evaluation found.
struct EvaluationReport {
  data::Task task = data::Task::classification;
  std::int64_t samples = 0;  ///< of the data, without skipped ones
  EvaluationRecord record;
  std::optional<EvaluationMetrics> metrics;  ///< nothing: not asked for
  bool per_class = false;                    ///< tables of classes for people
};

/// Lines for people.
std::string evaluation_text(const EvaluationReport& report);
/// One JSON object; what is not known is skipped, a share of nothing is null.
std::string evaluation_json(const EvaluationReport& report);

}  // namespace lockstep

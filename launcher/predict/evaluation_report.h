// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/predict/evaluation_metrics.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// What an evaluation found.
struct EvaluationReport {
  data::Task task = data::Task::classification;
  std::int64_t samples = 0;  ///< of the data, without skipped ones
  EvaluationRecord record;
  std::optional<EvaluationMetrics> metrics;  ///< nothing: not asked for
  bool per_class = false;                    ///< tables of classes for people
  std::optional<double> bits_per_byte;       ///< of tokens whose text is known
};

/// Lines for people.
std::string evaluation_text(const EvaluationReport& report);
/// One JSON object; what is not known is skipped, a share of nothing is null.
std::string evaluation_json(const EvaluationReport& report);
/// Lines for people on each class or label.
std::string class_table(const EvaluationReport& report);
/// Of metrics alone, in one line: what evaluation_json() says of them.
std::string metrics_json(data::Task task, const EvaluationMetrics& metrics);

}  // namespace lockstep

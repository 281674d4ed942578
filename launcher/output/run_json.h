// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/output/restart_record.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// A line of metrics.jsonl, without its end. Numbers that were not computed are null.
std::string to_json(const StepRecord& record);
std::string to_json(const EvaluationRecord& record);
std::string to_json(const CheckpointRecord& record);
std::string to_json(const RestartRecord& record);
std::string to_json(const SkipRecord& record);
std::string to_json(const RollbackRecord& record);

/// summary.json.
/// `evaluation`: a JSON object of what was found out about the validation part in addition, or
/// empty.
std::string to_json(const TrainSummary& summary, const std::string& evaluation = {});

}  // namespace lockstep

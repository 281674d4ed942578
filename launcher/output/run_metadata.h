// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/output/train_request.h"
#include "lockstep/job.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// environment.json: program, command line, machine and ranks of a run; `micro_batch_note` is why
/// `--micro-batch auto` took its size, or empty.
std::string environment_json(Job& job,
                             const TrainRequest& settings,
                             const std::string& micro_batch_note);

/// One line of history.jsonl: how a process of the run began. `resumed`: null where with step 1.
std::string history_json(Job& job, const TrainRequest& settings, const ResumeRecord* resumed);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/output/run_folder.h"
#include "launcher/settings/train_flags.h"
#include "lockstep/data/dataset.h"
#include "lockstep/job.h"
#include "lockstep/train_records.h"

/// What `lockstep train --per-class` adds at the end of a run.
namespace lockstep {

/// Throws ConfigError: there is no validation part.
void require_class_results(const data::DataSplit& data);

/// Whether every rank's exit code is 0. Collective.
bool all_done(Job& job, int code);

/// Predicts the validation part with the weights of the run in the folder `path`, and adds what
/// `lockstep evaluate --per-class` says of it to summary.json, as "evaluation", and to standard
/// output. Each rank predicts a part; the result depends on no number of ranks. `folder`: rank 0's,
/// null on others. Returns the exit code. Collective. Throws as predict_labelled().
int write_class_results(Job& job,
                        const TrainFlags& flags,
                        const data::DataSplit& data,
                        const std::string& path,
                        const TrainSummary& summary,
                        RunFolder* folder);

}  // namespace lockstep

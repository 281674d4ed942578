// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/data/loader.h"
#include "lockstep/data/sources.h"
#include "lockstep/replica.h"
#include "lockstep/train_options.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {

/// What the loaders of a run are made with, but for what ties them to a replica.
data::LoaderOptions training_loader(const TrainOptions& options, const BatchPlan& batch);
data::LoaderOptions evaluation_loader(const TrainOptions& options, const BatchPlan& batch);

/// Dataset::decoding_bytes() of the threads that load for training and of those of an evaluation,
/// during which the former keep what they hold.
std::uint64_t decoding_bytes(const data::DataSplit& data,
                             const TrainOptions& options,
                             const BatchPlan& batch);
/// Ties them to it: the loader fills memory of the replica's, and its micro-batches are progress.
void lend_to_loader(Replica& replica, data::LoaderOptions& loading);

}  // namespace lockstep

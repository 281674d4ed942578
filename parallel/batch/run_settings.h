// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/train_options.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/fingerprint.h"

namespace lockstep {

/// Everything but the model that decides what a run trains and how it is executed, whatever the
/// number of ranks: compared across ranks at the start, and kept in checkpoints. `schedule` has its
/// decay_steps.
Fingerprint run_settings(const TrainOptions& options,
                         const BatchPlan& batch,
                         std::int64_t steps,
                         const LrSchedule& schedule,
                         const data::DataSplit& data,
                         const std::string& device_class);

/// Keys of content_settings().
inline constexpr const char* kDataSample = "data sample";
inline constexpr const char* kDataWritten = "data written";

/// The content samples of the data (Dataset::content_sample), for checkpoints: "data sample", a
/// hash, and "data written", a time, where a source has them. On one rank. Throws DataError where
/// data cannot be read; where bad samples are skipped, there are none of these settings then.
Fingerprint content_settings(const data::DataSplit& data, const TrainOptions& options);

/// What the model decides. "model": hash of the traced graph, its operators, attributes and
/// parameters; not of places in source files, of fusion, or of how batch-norm groups lie on ranks.
/// "layer-decay", where it is on: with a hash of layers_of(), since a program that groups a model's
/// parameters in another way trains them at other rates. Throws as trace().
Fingerprint model_settings(const ModelFunction& model,
                           const LossFunction& loss,
                           const data::SampleSpec& samples,
                           const TrainOptions& options,
                           const BatchPlan& batch);

}  // namespace lockstep

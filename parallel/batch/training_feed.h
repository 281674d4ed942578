// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/training_feed.h"

namespace lockstep {

/// The batch that step number `step` (from 0) uses: the one of that number among those that are not
/// skipped.
std::int64_t batch_of_step(std::int64_t step, const SkippedBatches& skipped_batches);

/// Skips all batches from the one that `first_step` uses to that of `last_step`.
void skip_batches(SkippedBatches& skipped_batches, std::int64_t first_step, std::int64_t last_step);

/// Samples in the steps before `step`, where an epoch's last batch may be short.
std::int64_t samples_before(std::int64_t step,
                            std::int64_t dataset_size,
                            std::int64_t global_batch,
                            const SkippedBatches& skipped_batches = {});

}  // namespace lockstep

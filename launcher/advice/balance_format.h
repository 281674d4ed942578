// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/batch_plan.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// "balance 66.7%: of 64 micro-batches the rank that has most computes 2"
std::string format_balance(const BatchPlan& batch);

/// What to do about ranks that are not balanced; empty where another number of shards would gain
/// less than 5%.
std::string format_balance_remedy(const BatchPlan& batch);

/// "64 shards balance 1-6, 8, 11, 13, 16, 22, 32-33, 64 ranks, with the same bits": the numbers of
/// balanced_rank_counts(), some of them where there are many.
std::string format_balanced_ranks(const TrainOptions& options, const BatchPlan& batch);

}  // namespace lockstep

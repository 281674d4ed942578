// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/batch_plan.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// The micro-batch where neither it nor an accumulation is given: 32 samples, or fewer where that
/// would make fewer than 8 micro-batches, which leaves ranks without work. There are at least 2,
/// and more only of 16 samples and up: local batch norm loses accuracy with fewer (Wu and He 2018,
/// table 2).
std::int64_t default_micro_batch(std::int64_t global_batch);

/// Derives what the options leave open, for `ranks` ranks. Micro-batch and shards do not depend on
/// the ranks, but for two cases that say so: `accumulation` without a micro-batch, and batch norm
/// `sync`.
/// Throws ConfigError: numbers below 1 or that contradict each other (all of them named), fewer
/// micro-batches or shards than ranks, a batch-norm group that cannot be formed, with what would
/// form it.
BatchPlan plan_batch(const TrainOptions& options, int ranks);

/// The same for searches: nothing where plan_batch() throws.
std::optional<BatchPlan> try_plan_batch(const TrainOptions& options, int ranks);

/// Throws ConfigError where a global batch is larger than the training data.
void expect_whole_batch(std::int64_t global_batch, std::int64_t training_samples);

/// Sizes of the short last micro-batches: of a global batch, of an epoch's last batch, and of the
/// evaluation of `validation_samples` (0: there is none).
std::vector<std::int64_t> tail_sizes(const BatchPlan& plan,
                                     std::int64_t training_samples,
                                     std::int64_t validation_samples);

/// The most shards that plan_batch() makes of a batch where `options` name no number.
int most_derived_shards(const TrainOptions& options);
/// The smallest micro-batch with which no shard of a batch has several.
std::int64_t least_of_single_shards(const TrainOptions& options);

/// Mean micro-batches of the ranks / those of the rank that has most, of a whole global batch: the
/// share of a step in which ranks of equal speed compute at most. In (0, 1].
double rank_balance(const BatchPlan& plan);

/// Ranks are balanced from here on.
inline constexpr double kMinBalance = 0.95;

/// The numbers of ranks, up to `most`, that are balanced with the micro-batch and shards of `plan`,
/// made from `options`, and so have its bits.
std::vector<int> balanced_rank_counts(const TrainOptions& options, const BatchPlan& plan, int most);

/// Where ranks are not balanced, a number of shards with which the rank that has most would have at
/// least 5% less: one for each rank, as no number makes it less than its even share, rounded up.
std::optional<int> better_shards(const BatchPlan& plan);

/// Shards of an evaluation: the same on any number of ranks, and at least one for each.
int evaluation_shards(const BatchPlan& plan);

}  // namespace lockstep

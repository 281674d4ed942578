// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/loader.h"
#include "core/data/reduced_dataset.h"
#include "parallel/rank_context.h"
#include "parallel/replica.h"
#include "parallel/train_records.h"

namespace lockstep {

/// Evaluates a replica on all of a dataset, as often as a run wants to. Collective.
///
/// With TrainOptions::skip_bad_samples, a sample that cannot be read is left out: loss and accuracy
/// have the bits of a dataset without it. A pass that meets such a sample, on any rank, is done
/// again without it, and so are all evaluations from then on.
class Evaluation {
 public:
  /// All of it must outlive this.
  Evaluation(RankContext& context,
             Replica& replica,
             const TrainOptions& options,
             std::shared_ptr<const data::Dataset> data);

  /// Mean loss and accuracy, the seconds that they took, and what was left out. Nothing where
  /// `interrupted` (may be empty; see Replica::evaluate) ended it. Throws DataError: every sample
  /// is bad, or more than Loader::kMostSkippedInARow in a row.
  std::optional<EvaluationRecord> run(const std::function<bool()>& interrupted);

  /// Bytes of the slots of the last run()'s loader.
  std::uint64_t loader_bytes() const { return loader_bytes_; }

 private:
  /// Index in the whole dataset, and what is wrong.
  using BadSamples = std::map<std::int64_t, std::string>;

  std::optional<StepResult> pass(BadSamples& bad, const std::function<bool()>& interrupted);
  bool leave_out(const BadSamples& bad);

  RankContext& context_;
  Replica& replica_;
  const TrainOptions& options_;
  std::shared_ptr<const data::Dataset> whole_;
  std::shared_ptr<const data::ReducedDataset> reduced_;  // null: nothing is left out
  std::vector<std::int64_t> left_out_;                   // ascending
  std::string first_left_out_;                           // what is wrong with the first
  std::uint64_t loader_bytes_ = 0;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/data/reduced_dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/rank_context.h"
#include "lockstep/replica.h"
#include "lockstep/train_records.h"

namespace lockstep {

/// Evaluates a replica on all of a dataset, as often as a run wants to. Collective.
///
/// With TrainOptions::skip_bad_samples, a sample that cannot be read is skipped: loss and accuracy
/// have the bits of a dataset without it. A pass loads such samples as zeros, so that every rank
/// comes to the pass's end however many they are; then all ranks drop the pass's result and
/// evaluate once more without the samples that any of them found. The next evaluation begins with
/// an attempt to read the skipped samples again, so that an error of a moment (a file server that
/// restarts) costs a sample one evaluation, not all of them.
class Evaluation {
 public:
  /// All of it must outlive this.
  Evaluation(RankContext& context,
             Replica& replica,
             const TrainOptions& options,
             std::shared_ptr<const data::Dataset> data);

  /// Mean loss and accuracy, the seconds that they took, and what was skipped. Nothing where
  /// `interrupted` (may be empty; see Replica::evaluate) ended it. Throws, on every rank,
  /// DataError: no sample can be read; OutOfMemory as Replica::compile_for_evaluation().
  std::optional<EvaluationRecord> run(const std::function<bool()>& interrupted);

  /// Samples that some run() skipped, each once: equal on all ranks. What was wrong with the first.
  std::int64_t skipped_samples() const { return std::ssize(ever_skipped_); }
  const std::string& first_skipped() const { return first_ever_skipped_; }

  /// Bytes of the slots of the last run()'s loader.
  std::uint64_t loader_bytes() const { return loader_bytes_; }

 private:
  /// Samples that this rank could not read, ascending, and what is wrong with the first.
  struct Unreadable {
    std::vector<std::int64_t> samples;
    std::string first;
  };

  std::optional<StepResult> pass(Unreadable& found, const std::function<bool()>& interrupted);
  bool skip(const Unreadable& found);
  void try_skipped_again();

  RankContext& context_;
  Replica& replica_;
  const TrainOptions& options_;
  std::shared_ptr<const data::Dataset> whole_;
  std::shared_ptr<const data::ReducedDataset> reduced_;  // null: nothing is skipped
  std::vector<std::int64_t> skipped_;                    // ascending, of the whole dataset
  std::string first_skipped_;                            // what is wrong with the first
  std::set<std::int64_t> ever_skipped_;
  std::string first_ever_skipped_;
  std::uint64_t loader_bytes_ = 0;
};

}  // namespace lockstep

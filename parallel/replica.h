// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/loader.h"
#include "core/io/weights.h"
#include "core/nn/builder.h"
#include "parallel/batch_plan.h"
#include "parallel/rank_context.h"
#include "parallel/schedule.h"
#include "parallel/snapshot.h"

namespace lockstep {

class Profiler;

/// What one training step found out. Equal on all ranks.
struct StepResult {
  double loss = 0;        ///< mean over the global batch, over the labels that count
  double counted = 1;     ///< share of labels that are not ignored
  double accuracy = -1;   ///< share of correct answers; negative where there are no classes
  double grad_norm = -1;  ///< before clipping; negative where it was not asked for
};

/// Seconds since construction, of this rank.
struct StepTimes {
  double forward = 0, backward = 0, exposed_communication = 0, optimizer = 0;
};

/// One rank's copy of the model in lockstep with the others: the compiled programs, the flat
/// arrays, the exchange and the optimizer. Trainer drives it; an own training loop may as well.
/// Collective: all ranks call the same functions with matching arguments.
class Replica {
 public:
  /// Compiles training and evaluation programs for micro-batches of plan_batch()'s size and for
  /// each of `tail_sizes` (short last micro-batches, with or without duplicates). Parameters start
  /// from the seed or from `options.init`, equal on every rank that reads equal files. Throws
  /// ConfigError, ShapeError, DataError, OutOfMemory.
  Replica(RankContext& context,
          const ModelFunction& model,
          const LossFunction& loss,
          const data::SampleSpec& samples,
          const TrainOptions& options,
          std::vector<std::int64_t> tail_sizes);
  ~Replica();

  const BatchPlan& batch() const;
  /// This rank's part of a global batch of `samples`.
  Schedule schedule(std::int64_t samples) const;

  /// Forward and backward of the scheduled micro-batches, which `loader` delivers in schedule
  /// order, exchange, clipping and update number `step` (from 0) at rate `lr`. Throws
  /// NonFiniteError before the weights change: the loss is not finite.
  StepResult train_step(const Schedule& schedule,
                        data::Loader& loader,
                        std::int64_t step,
                        float lr,
                        bool want_grad_norm = false);

  /// How `samples` evaluation samples are shared among the ranks.
  Schedule evaluation_schedule(std::int64_t samples) const;
  /// Mean loss and accuracy over all of them, with running statistics.
  StepResult evaluate(const Schedule& schedule, data::Loader& loader);
  /// The same, unless `interrupted` ends it: it is asked before each of schedule.most_rounds
  /// rounds, equally often on every rank, and has to answer the same on all. Then the replica can
  /// be saved, but neither trained nor evaluated any more.
  std::optional<StepResult> evaluate(const Schedule& schedule,
                                     data::Loader& loader,
                                     const std::function<bool()>& interrupted);

  /// Where this rank stands; see RankContext.
  Position& position();
  StepTimes times() const;
  std::uint64_t bytes_sent() const;
  /// See training_bytes(); of the program for a whole micro-batch.
  std::size_t planned_bytes() const;
  /// Bytes of the arena: activations and workspace.
  std::size_t activation_bytes() const;
  /// What was timed; null without TrainOptions::profile.
  Profiler* profiler();

  /// Host copies of parameters and running statistics, as stored, in declaration order.
  std::vector<io::NamedTensor> weights() const;
  /// Sums of the last step's gradients (scaled by one over the samples), in declaration order,
  /// without frozen parameters.
  std::vector<io::NamedTensor> gradients() const;

  /// What a checkpoint saves; valid as long as the replica.
  SavedArrays saved_arrays() const;
  /// Takes over parameters, running statistics and optimizer state of a checkpoint, which
  /// io::verify_checkpoint() has accepted. Throws DataError as lockstep::restore().
  void restore(const std::string& checkpoint);

  /// Text of graph, flat space and plan: equal on every rank, part of the fingerprint.
  std::string program_text() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/batch_plan.h"
#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/device_use.h"
#include "lockstep/rank_context.h"
#include "lockstep/schedule.h"
#include "lockstep/step_result.h"
#include "lockstep/train_options.h"
#include "lockstep/weights.h"

namespace lockstep {

class ReplicaState;

/// One rank's copy of the model in lockstep with the others, for a training loop of your own:
///
///   for (std::int64_t step = 0; step < steps; ++step)
///     for (const lockstep::StepResult& result :
///          replica.train_step(feed.schedule(step), loader, step, lr))
///       lockstep::require_finite(result);
///   for (const lockstep::StepResult& result : replica.finish_steps())
///     lockstep::require_finite(result);
///
/// Trainer drives one. Collective: all ranks call the same functions with matching arguments, in
/// the same order, each from one thread.
class Replica {
 public:
  /// Compiles training and evaluation programs for micro-batches of `options`' size and for
  /// each of `tail_sizes` (short last micro-batches, with or without duplicates). Parameters start
  /// from the seed or from `options.init`, equal on every rank that reads equal files; those that
  /// start from training data wait for initialise_from(). Throws ConfigError, ShapeError,
  /// DataError, OutOfMemory.
  Replica(RankContext& context,
          const ModelFunction& model,
          const LossFunction& loss,
          const data::SampleSpec& samples,
          const TrainOptions& options,
          std::vector<std::int64_t> tail_sizes);
  ~Replica();

  /// Parameters that start from training data (Init::Kind::whitening, of Conv2dOptions::whitening)
  /// start from `training`, except those that `options.init` has loaded; without such parameters
  /// nothing is done. Before the first train_step(). Rank 0 alone reads samples, and all ranks
  /// throw its error, as Error: a sample cannot be read, or is not finite. Collective.
  void initialise_from(const data::Dataset& training);

  /// How a global batch is cut; micro_batch is what a Loader's options need.
  const BatchPlan& batch() const;
  /// This rank's part of a global batch of `samples`. Throws ConfigError: Sharding::gradients has
  /// divided the gradients of a shard, and a shard would have several micro-batches.
  Schedule schedule(std::int64_t samples) const;

  /// Makes a loader for this replica fill host memory that the device copies from asynchronously,
  /// and keep it unchanged during the copies. Changes nothing where the device is the CPU. A loader
  /// with other options works too.
  void lend_memory(data::LoaderOptions& options) const;

  /// Forward and backward of the scheduled micro-batches, which `loader` delivers in schedule
  /// order, exchange, clipping and update `step` (from 0) at rate `lr`. The device itself skips the
  /// update where loss or gradient norm is not finite or no label counts; with OnNonfinite::stop
  /// also those of all later steps, until resume_updates(). It throws nothing then: see
  /// require_finite(). Throws ConfigError: a micro-batch of the loader has other samples than the
  /// schedule says, images of another size, or is not mixed as TrainOptions::augmentation mixes;
  /// a loader for training has no LoaderOptions::mirror; a parameter that starts from training data
  /// has not got it, see initialise_from(); or as schedule().
  ///
  /// Returns the results of steps that are known by now and have not been returned, in order; valid
  /// until the next call. On the CPU that is this step's result, elsewhere the previous step's.
  std::span<const StepResult> train_step(const Schedule& schedule,
                                         data::Loader& loader,
                                         std::int64_t step,
                                         float lr);
  /// Waits for the last step: the results that train_step() has not returned.
  std::span<const StepResult> finish_steps();
  /// Waits for the last step, and returns its result, which train_step() or finish_steps() returns
  /// as well. `step` is -1 where no step was trained since the start or resume_updates(). Not
  /// collective.
  const StepResult& newest_result();
  /// Called once a bad step is handled: waits for the last step, drops results that have not been
  /// returned, and enables updates again.
  void resume_updates();

  /// Has the device's own clock measure the next train_step(): see device_times().
  void time_next_step();
  /// Seconds of step `step`, whose result is known; nullopt where it was not measured, as on a CPU.
  std::optional<DeviceTimes> device_times(std::int64_t step) const;

  /// nullopt where the device captures no graphs, as a CPU.
  std::optional<GraphUse> graph_use() const;

  /// Count of micro-batches of `schedule.samples` samples, over all ranks.
  std::int64_t micro_batches(const Schedule& schedule) const;

  /// How `samples` evaluation samples are shared among the ranks.
  Schedule evaluation_schedule(std::int64_t samples) const;
  /// Compiles the program that an evaluation of `samples` samples needs for its last micro-batch,
  /// unless `tail_sizes` had that size. It replaces the program of the previous call. It shares the
  /// memory of the other programs; what it needs in addition is in no plan. Throws
  /// OutOfMemory. Collective.
  void compile_for_evaluation(std::int64_t samples);
  /// Mean loss and accuracy over the schedule's samples, with running statistics. The loader has
  /// no augmentation, and LoaderOptions::mirror where TrainOptions::tta is flip. Throws ConfigError
  /// as train_step() does.
  StepResult evaluate(const Schedule& schedule, data::Loader& loader);
  /// The same, but ends with nullopt once `interrupted` returns true. It is called before each of
  /// schedule.most_rounds rounds, equally often on every rank, and must return the same on all.
  /// After that the replica can be saved, but neither trained nor evaluated.
  std::optional<StepResult> evaluate(const Schedule& schedule,
                                     data::Loader& loader,
                                     const std::function<bool()>& interrupted);

  /// Throws CommError where the network has failed. Call it after weights were copied to the host,
  /// before the copy is used.
  void require_healthy() const;
  /// What TrainOptions::init has loaded; nullopt where that is empty.
  const std::optional<io::LoadReport>& initial_weights() const;
  std::uint64_t bytes_sent() const;
  /// Bytes of the arena: activations and workspace.
  std::size_t activation_bytes() const;

  /// Host copies of parameters and running statistics, as stored, in declaration order. With
  /// TrainOptions::sharding (optimizer or gradients) and Precision::bf16 the first call after a
  /// step is a collective, which gathers them; otherwise a rank alone may call it.
  std::vector<io::NamedTensor> weights() const;
  /// io::weights_sha256() of weights(), copied one tensor at a time; empty where the device has no
  /// memory (Backend::has_memory()). Collective as weights() is.
  std::string weights_sha256() const;
  /// Sums of the last step's gradients (scaled by one over the samples), in declaration order,
  /// without frozen parameters. With TrainOptions::sharding what this rank does not own is
  /// unspecified. Throws ConfigError: Sharding::gradients has divided them.
  std::vector<io::NamedTensor> gradients() const;

 private:
  friend class ReplicaState;
  explicit Replica(std::unique_ptr<ReplicaState> state);
  std::unique_ptr<ReplicaState> state_;
};

}  // namespace lockstep

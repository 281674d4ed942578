// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/builder.h"
#include "lockstep/dataset.h"
#include "lockstep/device_use.h"
#include "lockstep/loader.h"
#include "lockstep/rank_context.h"
#include "lockstep/schedule.h"
#include "lockstep/step_result.h"
#include "lockstep/train_options.h"
#include "lockstep/weights.h"

namespace lockstep {

struct BatchPlan;
struct MemoryTable;
struct NonFiniteFinding;
class Profiler;
class ReplicaState;
struct SavedArrays;
class ShardNorms;
struct StepTimes;

/// One rank's copy of the model in lockstep with the others, for a training loop of your own:
///
///   for (std::int64_t step = 0; step < steps; ++step)
///     for (const lockstep::StepResult& result :
///          replica.train_step(feed.schedule(step), loader, step, lr))
///       lockstep::require_finite(result);
///   for (const lockstep::StepResult& result : replica.finish_steps())
///     lockstep::require_finite(result);
///
/// Trainer drives one, and asks it for more than such a loop needs. Collective: all ranks call the
/// same functions with matching arguments, in the same order, each from one thread.
class Replica {
 public:
  /// Compiles training and evaluation programs for micro-batches of `options`' size and for
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

  /// Has a loader for this replica fill memory that the device copies from while the host
  /// continues, and leave it alone meanwhile. Changes nothing where the device is the processor
  /// itself. Any other loader will do too.
  void lend_memory(data::LoaderOptions& options) const;

  /// Forward and backward of the scheduled micro-batches, which `loader` delivers in schedule
  /// order, exchange, clipping and update number `step` (from 0) at rate `lr`. The device itself
  /// leaves the update out where loss or gradient norm is not finite or no label counts; with
  /// OnNonfinite::stop also those of all later steps, until resume_updates(). Nothing is thrown for
  /// that: see require_finite().
  ///
  /// Returns the results of steps that are known by now and have not been returned, in order; valid
  /// until the next call. On the CPU that is this step's, elsewhere the one's before it.
  std::span<const StepResult> train_step(const Schedule& schedule,
                                         data::Loader& loader,
                                         std::int64_t step,
                                         float lr);
  /// Waits for the last step: the results that train_step() has not returned.
  std::span<const StepResult> finish_steps();
  /// Waits for the last step: its result, which is returned by the others as well. `step` is -1
  /// where none was trained since the start or resume_updates(). Not collective.
  const StepResult& newest_result();
  /// After a bad step has been dealt with: waits for the last step, drops results that have not
  /// been returned, and lets updates happen again.
  void resume_updates();

  /// Has the device's own clock measure the next train_step(): see device_times().
  void time_next_step();
  /// Seconds of that step, whose result is known; nothing where it was not measured, as on a CPU.
  std::optional<DeviceTimes> device_times(std::int64_t step) const;
  /// What was asked of the device since the last step was not training's, as a snapshot.
  void leave_out_of_device_times();

  /// Nothing where the device takes no graphs, as the processor.
  std::optional<GraphUse> graph_use() const;

  /// Squared norms of shards of some steps: see TrainOptions::noise_scale_every.
  ShardNorms& shard_norms();

  /// Computes the micro-batches of step `step` again, forward and backward with the weights as they
  /// are, and looks at what every kernel writes and at what is loaded; exchanges and updates
  /// nothing, but overwrites this rank's gradients. `loader` delivers them as for train_step().
  /// What was found, equal on all ranks; see NonFiniteLocator::gather().
  std::vector<NonFiniteFinding> find_nonfinite(const Schedule& schedule,
                                               data::Loader& loader,
                                               std::int64_t step);
  /// How many micro-batches the ranks' schedules for `schedule.samples` have together.
  std::int64_t micro_batches(const Schedule& schedule) const;

  /// How `samples` evaluation samples are shared among the ranks.
  Schedule evaluation_schedule(std::int64_t samples) const;
  /// Compiles the program that an evaluation of so many samples needs for its last micro-batch,
  /// where `tail_sizes` had no such one, in the place of the last program that this function
  /// compiled. It shares the memory of the others; what it needs in addition to that is in no plan:
  /// see memory(). Throws OutOfMemory. Collective.
  void compile_for_evaluation(std::int64_t samples);
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
  /// Throws CommError where the network has failed: see Communicator::require_healthy(). To be
  /// asked once weights have been copied, before the copy is used.
  void require_healthy() const;
  StepTimes times() const;
  /// Of TrainOptions::init; nothing where that is empty.
  const std::optional<io::LoadReport>& initial_weights() const;
  std::uint64_t bytes_sent() const;
  /// Bytes of the arena: activations and workspace.
  std::size_t activation_bytes() const;
  /// All that it has reserved, by category; loader and snapshot are not its own. `context` is
  /// context_part() of when it had been made, known on a GPU alone.
  MemoryTable memory() const;
  /// What this process had of its own before anything was reserved.
  std::uint64_t baseline_bytes() const;
  /// What was timed; null without TrainOptions::profile.
  Profiler* profiler();

  /// Host copies of parameters and running statistics, as stored, in declaration order.
  std::vector<io::NamedTensor> weights() const;
  /// io::weights_sha256() of weights(), which are not copied for it all at once.
  std::string weights_sha256() const;
  /// Sums of the last step's gradients (scaled by one over the samples), in declaration order,
  /// without frozen parameters.
  std::vector<io::NamedTensor> gradients() const;

  /// What a checkpoint saves; valid as long as the replica.
  SavedArrays saved_arrays() const;
  /// Takes over parameters, running statistics and optimizer state of a checkpoint, which
  /// io::verify_checkpoint() has accepted, and resume_updates(). Throws DataError as
  /// lockstep::restore().
  void restore(const std::string& checkpoint);

  /// For playing faults: flips bit `bit` (0 to 31) of element `index` of `array`, on this rank
  /// alone. Array 0 are the parameters and running statistics, those after it the optimizer's, in
  /// the order of saved_arrays(). Elements are counted over compared_tensors(), and from the first
  /// again after the last. Between steps. Returns the tensor's name, "conv1.weight.exp_avg".
  /// Throws ConfigError: no such array, element or bit.
  std::string flip_bit(std::size_t array, std::int64_t index, int bit);

  /// Text of graph, flat space and plan: equal on every rank, part of the fingerprint.
  std::string program_text() const;

 private:
  std::unique_ptr<ReplicaState> state_;
};

}  // namespace lockstep
